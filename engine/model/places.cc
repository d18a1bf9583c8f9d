#include "engine/model/places.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace recurve {

std::string Places::Name(int place) const {
  if (place == input()) {
    return model_.takes_tokens() ? "input embedding" : "input features";
  }
  if (place == pooling()) return "pooling";
  if (place == output()) return "output";
  if (place == loss()) return "loss";
  const int l = (place - 1) / 2;
  const Layer& layer = model_.layers()[l];
  const std::string block = absl::StrCat("blocks[", layer.block, "].");
  return place == before_layer(l) ? absl::StrCat(block, "input_to_hidden")
                                  : absl::StrCat(block, "layer ", layer.index);
}

int Places::Of(const Parameter& parameter) const {
  if (absl::StartsWith(parameter.name, "embedding.")) return input();
  for (int l = 0; l < num_layers(); ++l) {
    const Layer& layer = model_.layers()[l];
    if (absl::StartsWith(parameter.name,
                         LayerParameterName(layer.block, layer.index, ""))) {
      return this->layer(l);
    }
    const std::string before =
        absl::StrCat("blocks.", layer.block, ".input_to_hidden.");
    if (layer.index == 0 && absl::StartsWith(parameter.name, before)) {
      return before_layer(l);
    }
  }
  return output();
}

}  // namespace recurve
