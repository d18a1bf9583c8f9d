// The GPUs that this process can use: none in a build without --config=cuda.
#ifndef RECURVE_ENGINE_SCHEDULE_GPUS_H_
#define RECURVE_ENGINE_SCHEDULE_GPUS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/schedule/device_spec.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace recurve {

struct Gpu {
  std::string name;  // the product's
  int capability_major = 0;
  int capability_minor = 0;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;  // of it, now
};

// Unavailable, with why, if it is not there or cannot be used.
absl::StatusOr<Gpu> FindGpu(int ordinal);

// Those that the specs name, by ordinal; the error of the first that is not
// there, with the device's name.
absl::StatusOr<std::map<int, Gpu>> FindGpus(absl::Span<const DeviceSpec> specs);

// Of a CUDA device, for the calling thread. Errors as FindGpu.
absl::StatusOr<std::unique_ptr<Backend>> CreateGpuBackend(
    const DeviceSpec& spec);

// Communicators of ranks on different GPUs, one each, through NCCL.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectGpus(
    absl::Span<const int> ordinals);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_GPUS_H_
