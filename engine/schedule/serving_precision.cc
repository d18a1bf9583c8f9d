#include "engine/schedule/serving_precision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace recurve {

std::string NameOf(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "fp32";
    case Precision::kBfloat16:
      return "bf16";
    case Precision::kInt8:
      return "int8";
  }
  return "";
}

absl::StatusOr<Precision> ParsePrecision(absl::string_view name) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    if (name == NameOf(precision)) return precision;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("is `", name, "`, must be fp32, bf16 or int8"));
}

bool Serves(const DeviceSpec& spec, Precision precision) {
  return precision == Precision::kFloat32 || spec.kind == DeviceKind::kCpu;
}

absl::Status CheckServes(const std::vector<DeviceSpec>& specs,
                         Precision precision) {
  if (std::any_of(specs.begin(), specs.end(), [&](const DeviceSpec& spec) {
        return Serves(spec, precision);
      })) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no device serves at ", NameOf(precision),
      ": CUDA devices serve at fp32 (products=bf16 of --devices is for all "
      "that runs on one), CPU devices at fp32, bf16 and int8"));
}

}  // namespace recurve
