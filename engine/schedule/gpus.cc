#include "engine/schedule/gpus.h"

#include "absl/strings/str_cat.h"

namespace recurve {

absl::StatusOr<std::map<int, Gpu>> FindGpus(
    absl::Span<const DeviceSpec> specs) {
  std::map<int, Gpu> gpus;
  for (const DeviceSpec& spec : specs) {
    if (spec.kind != DeviceKind::kCuda || gpus.contains(spec.ordinal)) continue;
    const absl::StatusOr<Gpu> gpu = FindGpu(spec.ordinal);
    if (!gpu.ok()) {
      return absl::Status(
          gpu.status().code(),
          absl::StrCat("device \"", spec.text, "\": ", gpu.status().message()));
    }
    gpus[spec.ordinal] = *gpu;
  }
  return gpus;
}

}  // namespace recurve
