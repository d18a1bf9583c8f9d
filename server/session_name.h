// sessions/{session_id}
#ifndef RECURVE_SERVER_SESSION_NAME_H_
#define RECURVE_SERVER_SESSION_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recurve::server {

// The id in a session's name; any that a session may have, by whatever protocol
// it was begun. InvalidArgument names the field.
absl::StatusOr<std::string> SessionId(absl::string_view name,
                                      absl::string_view field);
// The same of a session that this protocol begins: an id as all resources have.
absl::StatusOr<std::string> NewSessionId(absl::string_view name,
                                         absl::string_view field);
std::string SessionName(absl::string_view id);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SESSION_NAME_H_
