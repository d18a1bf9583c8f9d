// The length of what clients call things.
#ifndef RECURVE_SERVER_REQUEST_STRINGS_H_
#define RECURVE_SERVER_REQUEST_STRINGS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace recurve::server {

inline constexpr size_t kMaxStringBytes = 256;

// InvalidArgument, naming the field, if a string of the message (request ids,
// names, owners, keys; not the items of its lists, nor what its messages have)
// is longer than that.
absl::Status CheckStrings(const google::protobuf::Message& message);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_REQUEST_STRINGS_H_
