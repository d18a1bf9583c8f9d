// Resource names and pages of lists, as Google's API improvement proposals have
// them.
#ifndef RECURVE_SERVER_RESOURCE_NAME_H_
#define RECURVE_SERVER_RESOURCE_NAME_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recurve::server {

// "datasets/bible" of collection "datasets" -> "bible". InvalidArgument names
// the field and says what a name looks like.
absl::StatusOr<std::string> ParseName(absl::string_view name,
                                      absl::string_view collection,
                                      absl::string_view field);

// Entries of a page: 100 unless the request says, 1000 at most. InvalidArgument
// for a negative size.
absl::StatusOr<int> PageSize(int32_t page_size);

// `id`, or if it is empty a fresh one: `prefix` and 12 random hexadecimal
// digits.
std::string IdOrRandom(const std::string& id, absl::string_view prefix);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_RESOURCE_NAME_H_
