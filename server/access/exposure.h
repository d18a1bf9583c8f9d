// Where the server listens, and whether others than this machine may reach it.
#ifndef RECURVE_SERVER_ACCESS_EXPOSURE_H_
#define RECURVE_SERVER_ACCESS_EXPOSURE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/config.pb.h"

namespace recurve::server {

// "HOST:PORT" -> HOST, brackets of IPv6 included. InvalidArgument, with the
// flag, otherwise.
absl::StatusOr<std::string> HostOf(absl::string_view flag,
                                   const std::string& listen);

// Of a host as HostOf gives it: 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(absl::string_view host);

// InvalidArgument, with what to do, for a configuration that would let anybody
// on the network in without --allow_insecure: it listens beyond loopback
// without TLS, or asks its clients for neither tokens nor certificates; or for
// flags of which one is missing.
absl::Status CheckExposure(const ServerConfig& config);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_EXPOSURE_H_
