// The server's certificate and key, and the authorities of its clients.
#ifndef RECURVE_SERVER_ACCESS_TLS_FILES_H_
#define RECURVE_SERVER_ACCESS_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recurve::server {

struct TlsPaths {
  std::string certificate;
  std::string key;
  std::string client_ca;  // empty: clients need no certificate
};

// PEM, as the files have it.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string client_ca;
};

// InvalidArgument names the flag and the file: one that cannot be read, has no
// PEM of its kind in it, or a key that is not the certificate's.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsPaths& paths);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_TLS_FILES_H_
