#include "server/access/listener.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/status.h"
#include "server/access/exposure.h"
#include "server/access/tls.h"
#include "server/flags.h"

namespace recurve::server {
namespace {

// A client may ask for a sign of life this often; gRPC's own limit, 5 minutes,
// would have ordinary clients cut off.
constexpr int kMinClientPingMs = 10'000;

std::function<void(const absl::Status&)> WarnThat(const char* kept) {
  return [kept](const absl::Status& broken) {
    std::fprintf(stderr, "%s; %s\n", std::string(broken.message()).c_str(),
                 kept);
  };
}

absl::StatusOr<std::unique_ptr<TokenFile>> OpenTokens(
    const ServerConfig& config) {
  if (!config.has_tokens_file()) return nullptr;
  return TokenFile::Open(config.tokens_file(), absl::Now(),
                         WarnThat("the old tokens stay"));
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> OpenCredentials(
    const ServerConfig& config) {
  if (!config.has_tls_certificate()) return grpc::InsecureServerCredentials();
  return TlsCredentials(
      {config.tls_certificate(), config.tls_key(), config.tls_client_ca()},
      WarnThat("the old certificates stay"));
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(
      std::min(duration, absl::Milliseconds(INT32_MAX))));
}

}  // namespace

absl::StatusOr<Listener> OpenListener(const ServerConfig& config) {
  RETURN_IF_ERROR(CheckExposure(config));
  Listener listener;
  listener.address = config.listen();
  ASSIGN_OR_RETURN(listener.host, HostOf("listen", config.listen()));
  ASSIGN_OR_RETURN(listener.tokens, OpenTokens(config));
  ASSIGN_OR_RETURN(listener.credentials, OpenCredentials(config));
  ASSIGN_OR_RETURN(listener.keepalive_time,
                   ParseDurationFlag("keepalive_time", config.keepalive_time(),
                                     absl::Seconds(1)));
  ASSIGN_OR_RETURN(
      listener.keepalive_timeout,
      ParseDurationFlag("keepalive_timeout", config.keepalive_timeout(),
                        absl::Seconds(1)));
  listener.max_message_bytes = static_cast<int>(config.max_message_bytes());
  return listener;
}

void Configure(const Listener& listener, grpc::ServerBuilder& builder,
               int* port) {
  // Two servers on one port would each get some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client that vanished without a word gives its streams back.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             Milliseconds(listener.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(listener.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinClientPingMs);
  builder.SetMaxReceiveMessageSize(listener.max_message_bytes);
  builder.SetMaxSendMessageSize(listener.max_message_bytes);
  builder.AddListeningPort(listener.address, listener.credentials, port);
}

}  // namespace recurve::server
