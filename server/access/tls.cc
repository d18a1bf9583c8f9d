#include "server/access/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/status.h"
#include "server/access/watched_files.h"

namespace recurve::server {
namespace {

// gRPC's own watcher of files (FileWatcherCertificateProvider) takes a key that
// is not the certificate's for good and then fails every handshake: so the
// files are read and checked here, and gRPC asks for them at each handshake.
class TlsReloader {
 public:
  static absl::StatusOr<std::unique_ptr<TlsReloader>> Open(
      const TlsPaths& paths, std::function<void(const absl::Status&)> warn) {
    auto reloader =
        std::unique_ptr<TlsReloader>(new TlsReloader(paths, std::move(warn)));
    absl::MutexLock lock(&reloader->mutex_);
    ASSIGN_OR_RETURN(reloader->next_, ReadTlsFiles(paths));
    return reloader;
  }

  // What gRPC does not have yet, if there is something.
  std::optional<TlsMaterial> TakeNew() {
    absl::MutexLock lock(&mutex_);
    if (files_.Changed()) {
      auto tls = ReadTlsFiles(paths_);
      if (tls.ok()) {
        next_ = *std::move(tls);
      } else {
        warn_(tls.status());
      }
    }
    return std::exchange(next_, std::nullopt);
  }

 private:
  TlsReloader(const TlsPaths& paths,
              std::function<void(const absl::Status&)> warn)
      : paths_(paths),
        warn_(std::move(warn)),
        files_({paths.certificate, paths.key, paths.client_ca}) {}

  const TlsPaths paths_;
  const std::function<void(const absl::Status&)> warn_;
  absl::Mutex mutex_;
  WatchedFiles files_ ABSL_GUARDED_BY(mutex_);
  std::optional<TlsMaterial> next_ ABSL_GUARDED_BY(mutex_);
};

grpc_ssl_certificate_config_reload_status Fetch(
    void* reloader, grpc_ssl_server_certificate_config** config) {
  const auto tls = static_cast<TlsReloader*>(reloader)->TakeNew();
  if (!tls.has_value()) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair pair = {tls->key.c_str(),
                                           tls->certificate.c_str()};
  // gRPC wants authorities also where clients are not asked for certificates;
  // then it makes no use of them.
  const std::string& roots =
      tls->client_ca.empty() ? tls->certificate : tls->client_ca;
  *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

// gRPC's C++ has no credentials that fetch; its C has.
class FetchingCredentials : public grpc::ServerCredentials {
 public:
  FetchingCredentials(std::unique_ptr<TlsReloader> reloader, bool ask_client)
      : reloader_(std::move(reloader)),
        credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                ask_client
                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
                Fetch, reloader_.get()))) {}
  ~FetchingCredentials() override {
    grpc_server_credentials_release(credentials_);
  }

  // Who may call is the gate's to say.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  const std::unique_ptr<TlsReloader> reloader_;
  grpc_server_credentials* const credentials_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(
    const TlsPaths& paths, std::function<void(const absl::Status&)> warn) {
  ASSIGN_OR_RETURN(auto reloader, TlsReloader::Open(paths, std::move(warn)));
  return std::make_shared<FetchingCredentials>(std::move(reloader),
                                               !paths.client_ca.empty());
}

}  // namespace recurve::server
