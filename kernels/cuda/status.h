// CUDA's errors as statuses.
#ifndef RECURVE_KERNELS_CUDA_STATUS_H_
#define RECURVE_KERNELS_CUDA_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// What `operation` (a call of the CUDA runtime or a kernel's launcher)
// returned: ResourceExhausted if memory was out, Unavailable if there is no
// device or no driver that can be used, or no code for the device, else
// Internal; each with the operation,
// CUDA's name of the error and its text.
absl::Status ToStatus(cudaError_t error, absl::string_view operation);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_STATUS_H_
