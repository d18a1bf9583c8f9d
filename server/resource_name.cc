#include "server/resource_name.h"

#include <algorithm>

#include "absl/random/random.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "engine/base/resource_id.h"
#include "kernels/status.h"

namespace recurve::server {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;
constexpr size_t kShownBytes = 100;

}  // namespace

absl::StatusOr<std::string> ParseName(absl::string_view name,
                                      absl::string_view collection,
                                      absl::string_view field) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, absl::StrCat(collection, "/"))) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": \"", absl::CHexEscape(name.substr(0, kShownBytes)),
        "\" is not a name of the form ", collection, "/ID"));
  }
  RETURN_IF_ERROR(CheckResourceId(id, field));
  return std::string(id);
}

absl::StatusOr<int> PageSize(int32_t page_size) {
  if (page_size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: is ", page_size, ", must be 0 or more"));
  }
  return page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
}

std::string IdOrRandom(const std::string& id, absl::string_view prefix) {
  if (!id.empty()) return id;
  absl::BitGen random;
  return absl::StrFormat("%s%012x", prefix,
                         absl::Uniform<uint64_t>(random, 0, 1ull << 48));
}

}  // namespace recurve::server
