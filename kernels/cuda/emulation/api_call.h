// What every function of the emulated runtime API does around its own work.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_API_CALL_H_
#define RECURVE_KERNELS_CUDA_EMULATION_API_CALL_H_

#include <mutex>
#include <set>

#include "kernels/cuda/emulation/memory.h"
#include "kernels/cuda/emulation/runtime_api.h"

namespace recurve::cuda::emulation {

// One lock over everything: the state of the runtime and running kernels.
std::mutex& RuntimeLock();

// The calls below are made with the lock held.

// The error that a test asked for and that this call has to return without
// doing anything.
cudaError_t ErrorAskedFor();
// Keeps an error for cudaGetLastError; returns it.
cudaError_t Remember(cudaError_t error);
int CurrentDevice();
bool DeviceExists(int device);
// Whose memory kernels of the device may touch: its own and enabled peers'.
std::set<int> AccessibleDevices(int device);
// The error that broke the device, or cudaSuccess.
cudaError_t DeviceError(int device);
// The error with which the kernel that runs next fails, if a test asked so;
// breaks the device.
cudaError_t ErrorOfKernel(int device);

// For calls that do not depend on the current device being sound.
template <typename Body>
cudaError_t QueryCall(Body body) {
  std::lock_guard lock(RuntimeLock());
  cudaError_t error = ErrorAskedFor();
  return Remember(error != cudaSuccess ? error : body());
}

bool NothingIsQueued();

// Runs body under the lock. Afterwards device memory is inaccessible again,
// unless work is left in a queue.
template <typename Body>
cudaError_t ApiCall(Body body) {
  std::lock_guard lock(RuntimeLock());
  cudaError_t error = ErrorAskedFor();
  if (error == cudaSuccess) error = DeviceError(CurrentDevice());
  if (error == cudaSuccess) {
    error = body();
    if (NothingIsQueued()) OpenDeviceMemory({});
  }
  return Remember(error);
}

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_API_CALL_H_
