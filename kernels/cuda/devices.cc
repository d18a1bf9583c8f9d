#include "kernels/cuda/devices.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/status.h"
#include "kernels/status.h"

namespace recurve::cuda {
namespace {

absl::Status CheckOrdinal(int ordinal) {
  ASSIGN_OR_RETURN(const int count, DeviceCount());
  if (ordinal >= 0 && ordinal < count) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("no CUDA device ", ordinal, ": this machine has ", count,
                   ", counted from 0 (CUDA_VISIBLE_DEVICES limits them)"));
}

}  // namespace

absl::StatusOr<int> DeviceCount() {
  int count = 0;  // an old driver leaves it as it is
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  return absl::UnavailableError(absl::StrCat(
      "no CUDA device: ",
      error == cudaSuccess ? "CUDA counts none" : cudaGetErrorString(error),
      " (", cudaGetErrorName(error),
      "); check nvidia-smi, CUDA_VISIBLE_DEVICES and, in a container, that it "
      "was given the GPU; or use --devices=cpu:THREADS"));
}

absl::StatusOr<DeviceInfo> GetDeviceInfo(int ordinal) {
  RETURN_IF_ERROR(CheckOrdinal(ordinal));
  cudaDeviceProp properties;
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, ordinal),
                           "cudaGetDeviceProperties"));
  RETURN_IF_ERROR(ToStatus(cudaSetDevice(ordinal), "cudaSetDevice"));
  RETURN_IF_ERROR(ToStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  DeviceInfo info;
  info.name = properties.name;
  info.capability_major = properties.major;
  info.capability_minor = properties.minor;
  info.total_bytes = static_cast<int64_t>(total);
  info.free_bytes = static_cast<int64_t>(free);
  return info;
}

}  // namespace recurve::cuda
