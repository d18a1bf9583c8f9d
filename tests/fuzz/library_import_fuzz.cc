// A checkpoint with any keys and shapes, imported into models that among them
// take every path of finding names: what is taken exports to the same tensors.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/library_export.h"
#include "engine/model/library_import.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "tests/fuzz/check.h"

namespace recurve {
namespace {

using Models = std::vector<std::shared_ptr<const Model>>;

Models MakeModels() {
  Models models;
  for (const char* text :
       {"input { features { size: 1 } } "
        "blocks { sru { hidden_size: 1 num_layers: 1 } }",
        "input { token_embedding { vocabulary_size: 2 embedding_size: 1 } } "
        "blocks { qrnn { hidden_size: 1 } } "
        "output { linear { size: 2 bias: false } }",
        "input { token_embedding { vocabulary_size: 2 embedding_size: 1 } } "
        "blocks { name: 'a' sru { hidden_size: 1 num_layers: 1 } } "
        "blocks { name: 'b' sru { hidden_size: 1 num_layers: 1 } } "
        "output { linear { size: 2 tied: true } }"}) {
    const auto config = ParseModelConfig(text);
    FUZZ_CHECK(config.ok());
    const auto model = Model::Create(*config);
    FUZZ_CHECK(model.ok());
    models.push_back(*model);
  }
  return models;
}

void CheckImport(const Model& model, const Safetensors& file) {
  const auto imported = ImportLibrary(model, file.tensors(),
                                      OptionsFromMetadata(file.metadata()));
  if (!imported.ok()) {
    FUZZ_CHECK(!imported.status().message().empty());
    return;
  }
  const FloatTensorMap out =
      ExportLibrary(model, imported->parameters, imported->names);
  FUZZ_CHECK(out.size() == file.tensors().size());
  for (const auto& [key, tensor] : out) {
    const TensorView* in = file.Find(key);
    FUZZ_CHECK(in != nullptr && in->shape == tensor.shape);
    const auto values = ToFloats(key, *in);
    FUZZ_CHECK(values.ok() && values->size() == tensor.values.size());
    FUZZ_CHECK(std::memcmp(values->data(), tensor.values.data(),
                           4 * values->size()) == 0);
  }
}

}  // namespace
}  // namespace recurve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& models = *new recurve::Models(recurve::MakeModels());
  const auto file = recurve::Safetensors::Parse({data, size});
  if (!file.ok()) return 0;
  for (const auto& model : models) recurve::CheckImport(*model, *file);
  return 0;
}
