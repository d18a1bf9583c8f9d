#include "engine/model/library_export.h"

#include <string>

namespace recurve {
namespace {

std::string ModuleName(const std::string& prefix) {
  return prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1);
}

}  // namespace

FloatTensorMap ExportLibrary(const Model& model,
                             const std::vector<float>& parameters,
                             const LibraryNames& names) {
  FloatTensorMap tensors;
  for (const LibraryTensor& tensor : ModelTensors(model, names)) {
    FloatTensor& out = tensors[tensor.key];
    out.shape = tensor.shape;
    out.values.resize(static_cast<size_t>(tensor.count()));
    ToLibrary(tensor, parameters.data(), out.values.data());
  }
  return tensors;
}

MetadataMap ExportMetadata(const LibraryNames& names) {
  MetadataMap metadata = {{"format", "pt"}};
  if (!names.embedding.empty()) {
    metadata["recurve.embedding_key"] = ModuleName(names.embedding);
  }
  if (!names.output.empty()) {
    metadata["recurve.output_key"] = ModuleName(names.output);
  }
  return metadata;
}

}  // namespace recurve
