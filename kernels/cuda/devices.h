// The GPUs of this machine. Starts no work on them.
#ifndef RECURVE_KERNELS_CUDA_DEVICES_H_
#define RECURVE_KERNELS_CUDA_DEVICES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace recurve::cuda {

struct DeviceInfo {
  std::string name;          // the product's
  int capability_major = 0;  // of the compute capability
  int capability_minor = 0;
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // now, whoever holds the rest
};

// How many devices CUDA sees, at least 1. Unavailable "no CUDA device: ..."
// where there is none, or no driver that fits.
absl::StatusOr<int> DeviceCount();

// Asks a device. Makes CUDA's context of this process there, which takes some
// hundreds of MiB of its memory. Errors: Unavailable, with the devices that
// there are, for an ordinal that is not one of them.
absl::StatusOr<DeviceInfo> GetDeviceInfo(int ordinal);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_DEVICES_H_
