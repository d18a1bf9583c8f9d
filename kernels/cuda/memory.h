// Device memory that is released on destruction.
#ifndef RECURVE_KERNELS_CUDA_MEMORY_H_
#define RECURVE_KERNELS_CUDA_MEMORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace recurve::cuda {

// `bytes` of a device's memory, its contents undefined. The buffer's
// destruction waits for all work of the device.
//
// Errors: InvalidArgument if bytes < 0; ResourceExhausted, with what is free.
absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocateOn(int ordinal,
                                                         int64_t bytes);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_MEMORY_H_
