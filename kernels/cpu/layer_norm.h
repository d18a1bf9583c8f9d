// Layer normalisation of rows; kernels/layers/parts.h says what each function
// does.
#ifndef RECURVE_KERNELS_CPU_LAYER_NORM_H_
#define RECURVE_KERNELS_CPU_LAYER_NORM_H_

#include "kernels/tensor.h"

namespace recurve::cpu {

void LayerNormForward(Matrix<const float> x, const float* weight,
                      const float* bias, Matrix<float> y,
                      Matrix<float> statistics);

void LayerNormBackward(Matrix<const float> x, Matrix<const float> statistics,
                       const float* weight, Matrix<const float> dy,
                       Matrix<float> dx, Destination dx_destination,
                       float* dweight, float* dbias);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_LAYER_NORM_H_
