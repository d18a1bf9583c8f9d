#include "engine/serve/retry_hint.h"

#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

constexpr char kPayload[] = "recurve/retry_hint_ns";

}  // namespace

void SetRetryHint(absl::Status& status, absl::Duration delay) {
  status.SetPayload(kPayload,
                    absl::Cord(absl::StrCat(absl::ToInt64Nanoseconds(delay))));
}

std::optional<absl::Duration> RetryHint(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return std::nullopt;
  int64_t nanoseconds = 0;
  if (!absl::SimpleAtoi(std::string(*payload), &nanoseconds)) {
    return std::nullopt;
  }
  return absl::Nanoseconds(nanoseconds);
}

}  // namespace recurve
