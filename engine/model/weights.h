// A model's parameters by role, and their views in a buffer: the weights that a
// backend's operations read, or the gradients that they write.
#ifndef RECURVE_ENGINE_MODEL_WEIGHTS_H_
#define RECURVE_ENGINE_MODEL_WEIGHTS_H_

#include <vector>

#include "engine/model/model.h"
#include "engine/model/parameters.h"
#include "kernels/cell_args.h"
#include "kernels/tensor.h"

namespace recurve {

// Null = the layer has none. They belong to the model.
struct LayerParameters {
  const Parameter* input_to_hidden = nullptr;  // a block's first layer only
  const Parameter* projection_in = nullptr;
  const Parameter* projection = nullptr;
  const Parameter* projection_bias = nullptr;
  const Parameter* weight_c = nullptr;
  const Parameter* bias = nullptr;
  const Parameter* scale_x = nullptr;
  const Parameter* norm_weight = nullptr;
  const Parameter* norm_bias = nullptr;
};

struct ModelParameters {
  explicit ModelParameters(const Model& model);

  const Parameter* embedding = nullptr;
  std::vector<LayerParameters> layers;
  const Parameter* output_weight = nullptr;  // the embedding if tied
  const Parameter* output_bias = nullptr;
};

// F is float or const float. Absent parameters give absent views.
template <typename F>
Matrix<F> MatrixView(F* buffer, const Parameter* parameter) {
  return parameter == nullptr ? Matrix<F>() : View(buffer, *parameter);
}
template <typename F>
F* VectorView(F* buffer, const Parameter* parameter) {
  return parameter == nullptr ? nullptr : buffer + parameter->offset;
}

template <typename F>
SruWeights<F, F> SruViews(F* buffer, const LayerParameters& layer) {
  return {.projection_in = MatrixView(buffer, layer.projection_in),
          .projection = MatrixView(buffer, layer.projection),
          .packed = {},
          .projection_bias = VectorView(buffer, layer.projection_bias),
          .v = VectorView(buffer, layer.weight_c),
          .bias = VectorView(buffer, layer.bias),
          .norm_weight = VectorView(buffer, layer.norm_weight),
          .norm_bias = VectorView(buffer, layer.norm_bias)};
}

template <typename F>
QrnnWeights<F, F> QrnnViews(F* buffer, const LayerParameters& layer) {
  return {.projection = MatrixView(buffer, layer.projection),
          .packed = {},
          .bias = VectorView(buffer, layer.bias)};
}

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_WEIGHTS_H_
