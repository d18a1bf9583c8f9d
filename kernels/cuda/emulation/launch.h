// What cuda::Launch is in the emulation: the parameters are copied, as by a
// launch on a GPU, and the grid is queued in its stream.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_LAUNCH_H_
#define RECURVE_KERNELS_CUDA_EMULATION_LAUNCH_H_

#include <functional>

#include "kernels/cuda/emulation/coverage.h"
#include "kernels/cuda/emulation/runtime_api.h"
#include "kernels/cuda/emulation/vector_types.h"

namespace recurve::cuda::emulation {

// body is one thread of the kernel.
cudaError_t LaunchGrid(int kernel, dim3 grid, dim3 block, cudaStream_t stream,
                       std::function<void()> body);

// Succeeds, unless a test asked for a failure (control.h).
cudaError_t ProbeKernel();

template <auto kKernel>
struct RegisteredKernel {
  static inline const int number = RegisterKernel(typeid(RegisteredKernel));
};

template <auto kKernel, typename Parameters>
cudaError_t Launch(dim3 grid, dim3 block, cudaStream_t stream,
                   const Parameters& parameters) {
  return LaunchGrid(RegisteredKernel<kKernel>::number, grid, block, stream,
                    [parameters] { kKernel(parameters); });
}

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_LAUNCH_H_
