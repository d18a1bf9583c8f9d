#include "engine/model/weights.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace recurve {
namespace {

LayerParameters FindLayer(const ParameterLayout& layout, const Layer& layer) {
  const auto find = [&](absl::string_view field) {
    return layout.Find(LayerParameterName(layer.block, layer.index, field));
  };
  LayerParameters found;
  if (layer.index == 0) {
    found.input_to_hidden = layout.Find(
        absl::StrCat("blocks.", layer.block, ".input_to_hidden.weight"));
  }
  found.projection_in = find("projection_in");
  found.projection = find("projection");
  found.projection_bias = find("projection_bias");
  found.weight_c = find("weight_c");
  found.bias = find("bias");
  found.scale_x = find("scale_x");
  found.norm_weight = find("layer_norm.weight");
  found.norm_bias = find("layer_norm.bias");
  return found;
}

}  // namespace

ModelParameters::ModelParameters(const Model& model) {
  const ParameterLayout& layout = model.parameters();
  embedding = layout.Find("embedding.weight");
  for (const Layer& layer : model.layers()) {
    layers.push_back(FindLayer(layout, layer));
  }
  const bool tied = model.config().output().linear().tied();
  output_weight = tied ? embedding : layout.Find("output.weight");
  output_bias = layout.Find("output.bias");
}

}  // namespace recurve
