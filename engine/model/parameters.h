// The parameters of a model: where each stands in the one flat float32 buffer
// that holds them all. Gradients and optimizer moments use the same layout.
#ifndef RECURVE_ENGINE_MODEL_PARAMETERS_H_
#define RECURVE_ENGINE_MODEL_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/tensor.h"

namespace recurve {

// Names, with b counting blocks and l the layers of a block:
//
//   embedding.weight                     [V, E]
//   blocks.b.input_to_hidden.weight      [C, I], y = x W^T
//   blocks.b.layers.l.projection_in      [I, P]
//   blocks.b.layers.l.projection         SRU [P or I, D*K*H],
//                                        QRNN [window*I, D*G*H]
//   blocks.b.layers.l.projection_bias    [1, D*K*H], SRU's custom transforms;
//                                        0 for the groups v_f and v_r
//   blocks.b.layers.l.weight_c           [2, C], v_f then v_r; frozen under v1
//   blocks.b.layers.l.bias               SRU [2, C], QRNN [1, D*G*H]
//   blocks.b.layers.l.scale_x            [1, 1], every SRU layer; never trained
//   blocks.b.layers.l.layer_norm.weight  [1, I or C]
//   blocks.b.layers.l.layer_norm.bias    [1, I or C]
//   output.weight                        [O, C], absent if tied
//   output.bias                          [1, O]
//
// Column orders are those of kernels/cell_args.h.
struct Parameter {
  std::string name;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t offset = 0;  // in floats; a multiple of kParameterAlignment
  bool trainable =
      true;  // the optimizer leaves others alone; their gradient is 0
  int64_t count() const { return rows * cols; }
};

inline constexpr int64_t kParameterAlignment = 16;  // floats: 64 bytes

class ParameterLayout {
 public:
  // Appends a parameter and returns its index.
  int64_t Add(std::string name, int64_t rows, int64_t cols,
              bool trainable = true);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Null if there is none of that name.
  const Parameter* Find(absl::string_view name) const;
  // Floats of the whole buffer, padding included (padding is always 0).
  int64_t buffer_size() const { return buffer_size_; }
  // Numbers that are really parameters.
  int64_t parameter_count() const;

 private:
  std::vector<Parameter> parameters_;
  int64_t buffer_size_ = 0;
};

// "blocks.0.layers.1.weight_c" for field `weight_c`.
std::string LayerParameterName(int64_t block, int64_t layer,
                               absl::string_view field);

// The view of `parameter` in a buffer of this layout.
inline Matrix<float> View(float* buffer, const Parameter& parameter) {
  return {buffer + parameter.offset, parameter.rows, parameter.cols};
}
inline Matrix<const float> View(const float* buffer,
                                const Parameter& parameter) {
  return {buffer + parameter.offset, parameter.rows, parameter.cols};
}

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_PARAMETERS_H_
