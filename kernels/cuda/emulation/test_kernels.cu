#include "kernels/cuda/emulation/test_kernels.h"
#include "kernels/cuda/launch.h"

namespace recurve::cuda::emulation {
namespace {

template <int kBlock>
__global__ void __launch_bounds__(kBlock) AxpyKernel(const AxpyParameters p) {
  int i = blockIdx.x * kBlock + threadIdx.x;
  if (i < p.n) p.y[i] += p.a * p.x[i];
}

}  // namespace

// --- launchers ---

cudaError_t Axpy(const AxpyParameters& parameters, cudaStream_t stream) {
  return cuda::Launch<AxpyKernel<64>>((parameters.n + 63) / 64, 64, stream,
                                      parameters);
}

}  // namespace recurve::cuda::emulation
