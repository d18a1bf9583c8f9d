#include "tests/golden/case_tensors.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve::golden {

std::string TensorName(const std::string& base, size_t call,
                       const std::string& rest) {
  return absl::StrCat(base, call == 0 ? "" : absl::StrCat("_", call + 1), rest);
}

absl::StatusOr<const TensorView*> CaseTensors::Use(
    const std::string& name, const std::vector<int64_t>& shape) {
  const TensorView* tensor = file_.Find(name);
  if (tensor == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("no tensor ", name));
  }
  if (tensor->shape != shape) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has shape ", ShapeString(tensor->shape),
                     "; expected ", ShapeString(shape)));
  }
  used_.insert(name);
  return tensor;
}

absl::StatusOr<std::vector<float>> CaseTensors::Floats(
    const std::string& name, const std::vector<int64_t>& shape) {
  ASSIGN_OR_RETURN(const TensorView* tensor, Use(name, shape));
  return ToFloats(name, *tensor);
}

absl::StatusOr<std::vector<double>> CaseTensors::Doubles(
    const std::string& name, const std::vector<int64_t>& shape) {
  ASSIGN_OR_RETURN(const TensorView* tensor, Use(name, shape));
  return ToDoubles(name, *tensor);
}

absl::StatusOr<std::vector<int64_t>> CaseTensors::Integers(
    const std::string& name, const std::vector<int64_t>& shape) {
  ASSIGN_OR_RETURN(const TensorView* tensor, Use(name, shape));
  return ToIntegers(name, *tensor);
}

TensorMap CaseTensors::WithPrefix(const std::string& prefix) {
  TensorMap found;
  for (const auto& [name, tensor] : file_.tensors()) {
    if (!absl::StartsWith(name, prefix)) continue;
    used_.insert(name);
    found[name.substr(prefix.size())] = tensor;
  }
  return found;
}

absl::Status CaseTensors::AllUsed() const {
  for (const auto& [name, tensor] : file_.tensors()) {
    if (used_.contains(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " is not understood"));
  }
  return absl::OkStatus();
}

}  // namespace recurve::golden
