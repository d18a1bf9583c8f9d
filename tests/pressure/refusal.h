// What a client reads in an error.
#ifndef RECURVE_TESTS_PRESSURE_REFUSAL_H_
#define RECURVE_TESTS_PRESSURE_REFUSAL_H_

#include <optional>

#include "absl/time/time.h"
#include "grpcpp/support/status.h"
#include "proto/google/rpc/status.pb.h"

namespace recurve::pressure {

// As an RPC's: of a reply in a stream.
inline grpc::Status StatusOf(const google::rpc::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), status.message(),
          status.SerializeAsString()};
}

// When it may be tried again, if the server says so.
inline std::optional<absl::Duration> RetryDelay(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& detail : details.details()) {
    google::rpc::RetryInfo info;
    if (!detail.UnpackTo(&info)) continue;
    return absl::Seconds(info.retry_delay().seconds()) +
           absl::Nanoseconds(info.retry_delay().nanos());
  }
  return std::nullopt;
}

}  // namespace recurve::pressure

#endif  // RECURVE_TESTS_PRESSURE_REFUSAL_H_
