// What --devices names.
#ifndef RECURVE_ENGINE_SCHEDULE_DEVICE_SPEC_H_
#define RECURVE_ENGINE_SCHEDULE_DEVICE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recurve {

inline constexpr int kMaxDevices = 64;
inline constexpr int kMaxDeviceThreads = 1024;

// `cpu:THREADS[:memory=SIZE]`; cuda devices are another build's. SIZE is a
// whole number of bytes or, with a suffix, of KiB, MiB, GiB, TiB, KB, MB, GB or
// TB.
struct DeviceSpec {
  std::string text;  // as configured
  int threads = 1;
  int64_t memory_bytes = 0;  // budget; 0 = not limited
};

// "cpu:1,cpu:2:memory=2GiB"; "" = one device with all cores. InvalidArgument
// names the entry and what is allowed; Unavailable for cuda devices.
absl::StatusOr<std::vector<DeviceSpec>> ParseDevices(absl::string_view flag);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_DEVICE_SPEC_H_
