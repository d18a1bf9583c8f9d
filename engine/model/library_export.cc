#include "engine/model/library_export.h"

#include <string>
#include <variant>

namespace recurve {
namespace {

// The libraries' `v` transform has no bias. Ours stands in the last two gate
// groups of projection_bias; it is added to weight_c at every step, so that is
// where it goes.
void FoldStepBias(const Model& model, const Layer& layer,
                  std::vector<float>& parameters) {
  const SruShape& shape = std::get<SruLayer>(layer.cell).shape;
  const auto find = [&](absl::string_view field) {
    return parameters.data() +
           model.parameters()
               .Find(LayerParameterName(layer.block, layer.index, field))
               ->offset;
  };
  float* bias = find("projection_bias");
  float* weight_c = find("weight_c");
  const int64_t groups = shape.gate_groups();
  const int64_t h = shape.hidden_size;
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    for (int64_t gate = 0; gate < 2; ++gate) {
      float* from = bias + (d * groups + groups - 2 + gate) * h;
      float* to = weight_c + gate * shape.channels() + d * h;
      for (int64_t j = 0; j < h; ++j) {
        if (from[j] != 0) to[j] += from[j];  // -0 + 0 would not be -0
        from[j] = 0;
      }
    }
  }
}

bool HasStepCoefficients(const Layer& layer) {
  const auto* sru = std::get_if<SruLayer>(&layer.cell);
  return sru != nullptr && sru->shape.has_step_coefficients;
}

std::string ModuleName(const std::string& prefix) {
  return prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1);
}

}  // namespace

FloatTensorMap ExportLibrary(const Model& model,
                             const std::vector<float>& parameters,
                             const LibraryNames& names) {
  std::vector<float> folded = parameters;
  for (const Layer& layer : model.layers()) {
    if (HasStepCoefficients(layer)) FoldStepBias(model, layer, folded);
  }
  return ToLibraryLayout(model, folded, names);
}

FloatTensorMap ToLibraryLayout(const Model& model,
                               const std::vector<float>& buffer,
                               const LibraryNames& names) {
  FloatTensorMap tensors;
  for (const LibraryTensor& tensor : ModelTensors(model, names)) {
    FloatTensor& out = tensors[tensor.key];
    out.shape = tensor.shape;
    out.values.resize(static_cast<size_t>(tensor.count()));
    ToLibrary(tensor, buffer.data(), out.values.data());
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
