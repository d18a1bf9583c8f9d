// The one way to start a kernel. A kernel takes one plain struct by value:
//
//   template <typename S, int kVec>
//   __global__ void __launch_bounds__(256) SruForwardKernel(
//       const SruForwardParameters<S> p);
//   return Launch<SruForwardKernel<S, 4>>(grid, 256, stream, parameters);
//
// Included by .cu files alone.
#ifndef RECURVE_KERNELS_CUDA_LAUNCH_H_
#define RECURVE_KERNELS_CUDA_LAUNCH_H_

#include <type_traits>

#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// Nothing is launched for a grid without blocks. Returns the launch's own
// error, not what an earlier call of whatever library left behind; an error of
// the kernel itself comes back from a later call.
template <auto kKernel, typename Parameters>
cudaError_t Launch(dim3 grid, dim3 block, cudaStream_t stream,
                   const Parameters& parameters) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
#ifdef RECURVE_CUDA_EMULATION
  return emulation::Launch<kKernel>(grid, block, stream, parameters);
#else
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Parameters)>);
  void* arguments[] = {const_cast<Parameters*>(&parameters)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(kKernel), grid, block,
                          arguments, /*sharedMem=*/0, stream);
#endif
}

// Whether the current device can run the kernel: without code for it in the
// program, or code that its driver can translate, it cannot. Loads the kernel.
template <auto kKernel>
cudaError_t Probe() {
#ifdef RECURVE_CUDA_EMULATION
  return emulation::ProbeKernel();
#else
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes,
                               reinterpret_cast<const void*>(kKernel));
#endif
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_LAUNCH_H_
