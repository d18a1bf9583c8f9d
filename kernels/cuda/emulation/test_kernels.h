// Small kernels with and without faults, for the tests of the emulation.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_TEST_KERNELS_H_
#define RECURVE_KERNELS_CUDA_EMULATION_TEST_KERNELS_H_

#include "kernels/cuda/portable.h"

namespace recurve::cuda::emulation {

// y[i] = a * x[i] + y[i] for i < n, blocks of 64 threads.
struct AxpyParameters {
  int n;
  float a;
  const float* x;
  float* y;
};
cudaError_t Axpy(const AxpyParameters& parameters, cudaStream_t stream);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_TEST_KERNELS_H_
