#include "server/session_name.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/serve/session_store.h"
#include "server/resource_name.h"

namespace recurve::server {

absl::StatusOr<std::string> SessionId(absl::string_view name,
                                      absl::string_view field) {
  absl::string_view id = name;
  if (absl::ConsumePrefix(&id, "sessions/") && !id.empty() &&
      id.size() <= kMaxSessionIdBytes) {
    return std::string(id);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": \"", absl::CHexEscape(name.substr(0, 100)),
                   "\" is not a name of the form sessions/ID"));
}

absl::StatusOr<std::string> NewSessionId(absl::string_view name,
                                         absl::string_view field) {
  return ParseName(name, "sessions", field);
}

std::string SessionName(absl::string_view id) {
  return absl::StrCat("sessions/", id);
}

}  // namespace recurve::server
