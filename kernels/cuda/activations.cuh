// Sigmoid and tanh of device code. Sums of products are written as fmaf
// throughout the recurrences, so that no compiler chooses where to round.
#ifndef RECURVE_KERNELS_CUDA_ACTIVATIONS_CUH_
#define RECURVE_KERNELS_CUDA_ACTIVATIONS_CUH_

#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// Absolute error below 2e-7: the fast exponential is off by about |x| units in
// the last place, where the sigmoid is as small as exp(-|x|). 0 below -88; NaN
// stays NaN.
__device__ inline float Sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + __expf(-x));
}

// The slope of a sigmoid whose value is s.
__device__ inline float SigmoidSlope(float s) { return s * (1.0f - s); }

__device__ inline float Tanh(float x) { return tanhf(x); }

// The slope of a tanh whose value is t.
__device__ inline float TanhSlope(float t) { return fmaf(-t, t, 1.0f); }

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_ACTIVATIONS_CUH_
