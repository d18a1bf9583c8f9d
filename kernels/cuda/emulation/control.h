// What a test may set in the emulated machine. All may be called from any
// thread; the numbers of devices and bytes hold for what is asked or allocated
// afterwards.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_CONTROL_H_
#define RECURVE_KERNELS_CUDA_EMULATION_CONTROL_H_

#include <cstddef>

#include "kernels/cuda/emulation/runtime_api.h"

namespace recurve::cuda::emulation {

// 2 unless set. At 0, cudaGetDeviceCount gives cudaErrorNoDevice.
void SetDeviceCount(int count);
// Memory of each device: 1 GiB unless set. Real memory stands behind it.
void SetDeviceMemory(size_t bytes);
// What the devices' properties call the compute capability: 90 unless set.
void SetComputeCapability(int major_times_ten_plus_minor);

// When queued work runs. kRandom (unless set, and RECURVE_CUDA_STREAMS=random):
// some of it now and then, all that a synchronisation waits for; kLazy: only
// the latter; kEager: at the call.
enum class StreamMode { kRandom, kLazy, kEager };
void SetStreamMode(StreamMode mode);

// The call that follows `skip` further calls of the runtime API (launches are
// calls, too; getting errors is not) fails with error and does nothing else.
void FailCall(int skip, cudaError_t error);
// True until a call has failed as FailCall asked.
bool FailureIsPending();
// The kernel that runs after `skip` further ones does nothing; its device is
// broken from then on: every call returns error.
void FailKernel(int skip, cudaError_t error);
// Drops queued work and captures, mends broken devices, forgets failures asked
// for and what the above have set. Memory, streams and events stay.
void Reset();

// Bytes of device memory that are allocated on all devices, and pinned.
size_t AllocatedDeviceBytes();
size_t AllocatedPinnedBytes();

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_CONTROL_H_
