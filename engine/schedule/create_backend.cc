#include "engine/schedule/device.h"
#include "engine/schedule/gpus.h"
#include "kernels/cpu/backend.h"

namespace recurve {

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const DeviceSpec& spec) {
  if (spec.kind == DeviceKind::kCuda) return CreateGpuBackend(spec);
  return CreateCpuBackend(spec.threads);
}

}  // namespace recurve
