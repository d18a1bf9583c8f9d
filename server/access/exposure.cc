#include "server/access/exposure.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve::server {
namespace {

bool IsIpv4(absl::string_view host) {
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return absl::ascii_isdigit(c) || c == '.'; });
}

absl::Status Exposed(absl::string_view flag, const std::string& listen,
                     absl::string_view missing) {
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, ": ", listen, " is open to others than this machine: ",
      missing, ", listen on 127.0.0.1, or say --allow_insecure"));
}

// Each flag that needs another.
absl::Status CheckPairs(const ServerConfig& config) {
  if (config.has_tls_certificate() != config.has_tls_key()) {
    return absl::InvalidArgumentError(
        "--tls_certificate, --tls_key: one needs the other");
  }
  if (config.has_tls_client_ca() && !config.has_tls_certificate()) {
    return absl::InvalidArgumentError(
        "--tls_client_ca: needs --tls_certificate and --tls_key");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> HostOf(absl::string_view flag,
                                   const std::string& listen) {
  const size_t colon = listen.rfind(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == listen.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", flag, ": \"", listen, "\" is not HOST:PORT"));
  }
  return listen.substr(0, colon);
}

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "[::1]" || host == "::1" ||
         (IsIpv4(host) && absl::StartsWith(host, "127."));
}

absl::Status CheckExposure(const ServerConfig& config) {
  RETURN_IF_ERROR(CheckPairs(config));
  ASSIGN_OR_RETURN(const std::string host, HostOf("listen", config.listen()));
  const bool safe = config.has_tls_certificate() &&
                    (config.has_tokens_file() || config.has_tls_client_ca());
  if (!IsLoopback(host) && !safe && !config.allow_insecure()) {
    return Exposed("listen", config.listen(),
                   "give it --tls_certificate and --tls_key, and --tokens_file "
                   "or --tls_client_ca");
  }
  if (!config.has_metrics_listen()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string metrics,
                   HostOf("metrics_listen", config.metrics_listen()));
  if (!IsLoopback(metrics) && !config.allow_insecure()) {
    return Exposed("metrics_listen", config.metrics_listen(),
                   "metrics have neither TLS nor tokens");
  }
  return absl::OkStatus();
}

}  // namespace recurve::server
