#include "engine/base/resource_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

constexpr size_t kMaxLength = 63;

bool IsAlphanumeric(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c);
}

bool IsAllowed(char c) {
  return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-';
}

}  // namespace

absl::Status CheckResourceId(absl::string_view id, absl::string_view what) {
  if (!id.empty() && id.size() <= kMaxLength && IsAlphanumeric(id[0]) &&
      std::all_of(id.begin(), id.end(), IsAllowed)) {
    return absl::OkStatus();
  }
  const absl::string_view shown = id.substr(0, 2 * kMaxLength);
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": \"", absl::CHexEscape(shown),
      shown.size() < id.size() ? "..." : "",
      "\" is not an id; it must begin with a-z or 0-9, go on with a-z, 0-9, "
      "'.', '_' or '-', and have at most ",
      kMaxLength, " characters"));
}

}  // namespace recurve
