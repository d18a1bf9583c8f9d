// What --devices names.
#ifndef RECURVE_ENGINE_SCHEDULE_DEVICE_SPEC_H_
#define RECURVE_ENGINE_SCHEDULE_DEVICE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/settings.h"

namespace recurve {

inline constexpr int kMaxDevices = 64;
inline constexpr int kMaxDeviceThreads = 1024;

enum class DeviceKind { kCpu, kCuda };

// `cpu:THREADS[:memory=SIZE][:products=fp32|bf16]` or
// `cuda:ORDINAL[:memory=SIZE][:products=fp32|tf32|bf16|fp16]`, options in any
// order. SIZE is a whole number of bytes or, with a suffix, of KiB, MiB, GiB,
// TiB, KB, MB, GB or TB.
struct DeviceSpec {
  std::string text;  // as configured
  DeviceKind kind = DeviceKind::kCpu;
  int64_t memory_bytes = 0;  // budget; 0 = not limited
  int threads = 1;           // of the host; a CUDA device has one
  int ordinal = 0;           // of a CUDA device, among those of this process
  cuda::ProductPrecision products = cuda::ProductPrecision::kFp32;
};

// "cpu:1,cpu:2:memory=2GiB"; "" = one CPU device with all cores.
// InvalidArgument names the entry and what is allowed. Builds without CUDA read
// CUDA devices, too; whether there is such a GPU is another question.
absl::StatusOr<std::vector<DeviceSpec>> ParseDevices(absl::string_view flag);

// The places of those that trainings may be on, ascending: devices of one kind
// that multiply as the first of them does, since that is what the bits of a
// training depend on. CUDA devices if there are any. The others serve
// predictions alone.
std::vector<int> TrainingDevices(absl::Span<const DeviceSpec> specs);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_DEVICE_SPEC_H_
