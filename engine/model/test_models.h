// Models for tests, written as textproto.
#ifndef RECURVE_ENGINE_MODEL_TEST_MODELS_H_
#define RECURVE_ENGINE_MODEL_TEST_MODELS_H_

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/config.h"
#include "engine/model/model.h"

namespace recurve {

// Ends the test program if the config is not good.
inline std::shared_ptr<const Model> MakeModel(const std::string& textproto) {
  auto config = ParseModelConfig(textproto);
  auto model = config.ok() ? Model::Create(*config) : config.status();
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n%s\n", model.status().ToString().c_str(),
                 textproto.c_str());
    std::abort();
  }
  return *std::move(model);
}

// Every shape of layer that a checkpoint can hold: all options that change
// keys, shapes or layouts, with a first layer whose input differs from its
// output and one where both are equal.
inline std::vector<std::string> ModelsOfEveryLayout() {
  std::vector<std::string> blocks;
  for (const char* direction : {"", " bidirectional: true"}) {
    for (const char* options :
         {"", "layer_norm: true", "layer_norm: true normalize_after: true",
          "rescale: true highway_bias: -1", "v1: true", "has_skip_term: false",
          "projection_size: 3", "proj_input_to_hidden_first: true",
          "custom_m: CUSTOM_TRANSFORM_LINEAR", "custom_m: CUSTOM_TRANSFORM_UV",
          "custom_m: CUSTOM_TRANSFORM_UV has_skip_term: false",
          "library: SRU_3_DEV", "library: SRU_3_DEV projection_size: 4",
          "library: SRU_3_DEV projection_size: 9 projection_size: 0"}) {
      blocks.push_back(
          absl::StrCat("sru { hidden_size: 5 ", options, direction, " }"));
    }
    for (const char* options :
         {"", "window: 2 num_layers: 2", "output_gate: false",
          "window: 2 output_gate: false num_layers: 3",
          "layers { window: 2 hidden_size: 7 } layers { output_gate: false "
          "}"}) {
      blocks.push_back(
          absl::StrCat("qrnn { hidden_size: 5 ", options, direction, " }"));
    }
  }
  std::vector<std::string> models;
  for (const std::string& block : blocks) {
    for (const char* input : {"features { size: 6 }", "features { size: 5 }",
                              "features { size: 10 }"}) {
      models.push_back(
          absl::StrCat("input { ", input, " } blocks { ", block, " }"));
    }
  }
  const std::string ends =
      "input { token_embedding { vocabulary_size: 11 embedding_size: 6 } } "
      "blocks { sru { hidden_size: 6 num_layers: 1 } } output { linear { ";
  models.push_back(ends + "size: 4 } }");
  models.push_back(ends + "size: 4 bias: false } }");
  models.push_back(ends + "size: 11 tied: true } }");
  models.push_back(ends + "size: 11 tied: true bias: false } }");
  models.push_back(
      "input { features { size: 4 } } "
      "blocks { name: 'a' sru { hidden_size: 3 } } "
      "blocks { name: 'b.c' qrnn { hidden_size: 2 } } "
      "blocks { name: 'd' sru { hidden_size: 3 num_layers: 1 } } "
      "output { linear { size: 2 } }");
  return models;
}

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_TEST_MODELS_H_
