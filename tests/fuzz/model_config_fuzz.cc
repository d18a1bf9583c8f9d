// A model's textproto: whatever sizes it states, a model that is made of it
// adds up, and making it takes no memory in proportion to them.

#include <cstddef>
#include <cstdint>

#include "engine/model/config.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "tests/fuzz/check.h"

namespace recurve {
namespace {

void CheckParameters(const ParameterLayout& layout) {
  int64_t end = 0;
  for (const Parameter& parameter : layout.parameters()) {
    FUZZ_CHECK(parameter.rows > 0 && parameter.cols > 0);
    FUZZ_CHECK(parameter.offset >= end);
    FUZZ_CHECK(parameter.offset % kParameterAlignment == 0);
    end = parameter.offset + parameter.count();
    FUZZ_CHECK(end > parameter.offset);
  }
  FUZZ_CHECK(layout.buffer_size() >= end);
  FUZZ_CHECK(layout.parameter_count() <= kMaxParameters);
}

void CheckLayers(const Model& model) {
  int64_t state_end = 0;
  for (const Layer& layer : model.layers()) {
    FUZZ_CHECK(layer.input_size() > 0 && layer.channels() > 0);
    FUZZ_CHECK(layer.c_offset == state_end);
    state_end += layer.channels();
    if (layer.x_previous_offset < 0) continue;
    FUZZ_CHECK(layer.x_previous_offset == state_end);
    state_end += layer.input_size();
  }
  FUZZ_CHECK(model.state_size() == state_end);
}

void CheckLibraryTensors(const Model& model) {
  for (const LibraryTensor& tensor : ModelTensors(model, DefaultNames(model))) {
    FUZZ_CHECK(tensor.parameter != nullptr);
    FUZZ_CHECK(tensor.count() <= tensor.parameter->count());
  }
}

}  // namespace
}  // namespace recurve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto config =
      recurve::ParseModelConfig({reinterpret_cast<const char*>(data), size});
  if (!config.ok()) return 0;
  const auto model = recurve::Model::Create(*config);
  if (!model.ok()) return 0;
  recurve::CheckParameters((*model)->parameters());
  recurve::CheckLayers(**model);
  recurve::CheckLibraryTensors(**model);
  return 0;
}
