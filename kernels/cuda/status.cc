#include "kernels/cuda/status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace recurve::cuda {
namespace {

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return absl::StatusCode::kOk;
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorInitializationError:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ToStatus(cudaError_t error, absl::string_view operation) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // or the next launch would report it again
  return absl::Status(CodeOf(error),
                      absl::StrCat(operation, ": ", cudaGetErrorString(error),
                                   " (", cudaGetErrorName(error), ")"));
}

}  // namespace recurve::cuda
