// Layer normalisation of rows (biased variance, kLayerNormEpsilon):
//   x^ = (x - mean) * inverse_stddev      y = x^ * weight + bias
#ifndef RECURVE_KERNELS_CPU_LAYER_NORM_H_
#define RECURVE_KERNELS_CPU_LAYER_NORM_H_

#include "kernels/tensor.h"

namespace recurve::cpu {

// y may be x. statistics [rows, 2] gets mean and 1/stddev; may be absent.
void LayerNormForward(Matrix<const float> x, const float* weight,
                      const float* bias, Matrix<float> y,
                      Matrix<float> statistics);

// Reads what the forward pass saw and wrote. dx may be absent, or be dy itself
// (not with kAccumulate). dweight and dbias are overwritten, each may be null.
void LayerNormBackward(Matrix<const float> x, Matrix<const float> statistics,
                       const float* weight, Matrix<const float> dy,
                       Matrix<float> dx, Destination dx_destination,
                       float* dweight, float* dbias);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_LAYER_NORM_H_
