// Command-line flags that are the fields of a protobuf message.
//
// A field `max_rows` is given as --max_rows=N or --max_rows N; a boolean one as
// --field, --field=true, --field=false or --nofield. The message's defaults are
// the flags', the field option (help) their description.
#ifndef RECURVE_SERVER_FLAGS_H_
#define RECURVE_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"

namespace recurve::server {

// Sets the fields named in `arguments`. InvalidArgument for a flag that is no
// field, a value that does not fit, and anything that is not a flag.
absl::Status ParseFlags(absl::Span<const std::string> arguments,
                        google::protobuf::Message* message);

// Such as 30s or 1m30s. InvalidArgument names the flag, for what is no duration
// or less than `least`.
absl::StatusOr<absl::Duration> ParseDurationFlag(absl::string_view flag,
                                                 absl::string_view value,
                                                 absl::Duration least);

// One paragraph a field: name, type, default, description.
std::string DescribeFlags(const google::protobuf::Message& message);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_FLAGS_H_
