// The one place where our errors become gRPC's.
#ifndef RECURVE_SERVER_STATUS_H_
#define RECURVE_SERVER_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace recurve::server {

// The same code. The message is cut to a length that fits into trailers, and is
// valid UTF-8. InvalidArgument whose message begins with a field's path
// (`batch.tokens: ...`) has a google.rpc.BadRequest as details; what has a
// retry hint (engine/serve/retry_hint.h) has a google.rpc.RetryInfo.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_STATUS_H_
