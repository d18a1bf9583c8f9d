// TLS for a gRPC server whose certificate may change while it runs.
#ifndef RECURVE_SERVER_ACCESS_TLS_H_
#define RECURVE_SERVER_ACCESS_TLS_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/access/tls_files.h"

namespace recurve::server {

// Errors as ReadTlsFiles's. With a client_ca clients must show a certificate
// that it signed. Each new connection gets what the files have by then;
// connections that are there go on as they are. Files that are no good by then
// count as not changed, and `warn` is told once, from any thread. The
// credentials must outlive the server that uses them.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(
    const TlsPaths& paths, std::function<void(const absl::Status&)> warn);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_TLS_H_
