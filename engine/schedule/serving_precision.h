// At which precisions versions may be served, and on which devices.
#ifndef RECURVE_ENGINE_SCHEDULE_SERVING_PRECISION_H_
#define RECURVE_ENGINE_SCHEDULE_SERVING_PRECISION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/schedule/device_spec.h"
#include "kernels/precision.h"

namespace recurve {

// `fp32`, `bf16` or `int8`.
std::string NameOf(Precision precision);
// InvalidArgument says what is allowed.
absl::StatusOr<Precision> ParsePrecision(absl::string_view name);

// CPU devices serve at all of them. CUDA devices at float32 alone: there it is
// `products=` of the device that says how all its products multiply.
bool Serves(const DeviceSpec& spec, Precision precision);
// FailedPrecondition, with what they can do, if no device does.
absl::Status CheckServes(const std::vector<DeviceSpec>& specs,
                         Precision precision);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_SERVING_PRECISION_H_
