// How the server listens, as the configuration says.
#ifndef RECURVE_SERVER_ACCESS_LISTENER_H_
#define RECURVE_SERVER_ACCESS_LISTENER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "server/access/token_file.h"
#include "server/config.pb.h"

namespace recurve::server {

struct Listener {
  std::string address;  // HOST:PORT
  std::string host;
  std::unique_ptr<TokenFile> tokens;  // null: none are asked for
  // Outlive the gRPC server.
  std::shared_ptr<grpc::ServerCredentials> credentials;
  absl::Duration keepalive_time;
  absl::Duration keepalive_timeout;
  int max_message_bytes = 0;
};

// Reads the files that the configuration names. InvalidArgument says which flag
// is wrong, as CheckExposure, ReadTlsFiles and TokenFile::Open do. What is
// wrong with the files later on is said on stderr.
absl::StatusOr<Listener> OpenListener(const ServerConfig& config);

// All but the services: `port` becomes the port, 0 if it cannot be had.
void Configure(const Listener& listener, grpc::ServerBuilder& builder,
               int* port);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_LISTENER_H_
