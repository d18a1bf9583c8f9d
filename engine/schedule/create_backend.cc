#include "engine/schedule/device.h"
#include "engine/schedule/gpus.h"
#include "kernels/cpu/backend.h"
#include "kernels/precision.h"

namespace recurve {

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const DeviceSpec& spec) {
  if (spec.kind == DeviceKind::kCuda) return CreateGpuBackend(spec);
  const bool bf16 = spec.products == cuda::ProductPrecision::kBf16;
  return CreateCpuBackend(spec.threads,
                          bf16 ? Precision::kBfloat16 : Precision::kFloat32);
}

}  // namespace recurve
