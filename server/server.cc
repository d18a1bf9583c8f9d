#include "server/server.h"

#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "google/protobuf/message.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "kernels/status.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "server/access/gate_interceptor.h"
#include "server/kserve/service.h"
#include "server/services/services.h"

namespace recurve::server {
namespace {

// For calls to see that they are stopped, before gRPC cuts them off.
constexpr absl::Duration kStopGrace = absl::Seconds(5);
// For those who still watch its health when nothing else is left.
constexpr absl::Duration kWatchGrace = absl::Seconds(1);
// An idle connection is asked for a sign of life this often, and given up after
// so long without one.
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;

std::vector<std::unique_ptr<grpc::Service>> Services(Engine& engine) {
  std::vector<std::unique_ptr<grpc::Service>> services;
  services.push_back(NewModelsService(engine));
  services.push_back(NewDatasetsService(engine));
  services.push_back(NewInferenceService(engine));
  services.push_back(NewSessionsService(engine));
  services.push_back(NewTrainersService(engine));
  services.push_back(NewJobsService(engine));
  services.push_back(NewDevicesService(engine));
  services.push_back(kserve::NewInferenceProtocolService(engine));
  return services;
}

void Warn(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
}

// Null where the configuration names no file.
absl::StatusOr<std::unique_ptr<TokenFile>> OpenTokens(
    const ServerConfig& config) {
  if (!config.has_tokens_file()) return nullptr;
  return TokenFile::Open(
      config.tokens_file(), absl::Now(), [](const absl::Status& broken) {
        Warn(absl::InvalidArgumentError(
            absl::StrCat(broken.message(), "; the old tokens stay")));
      });
}

// "HOST:PORT" -> HOST, brackets of IPv6 included. InvalidArgument otherwise.
absl::StatusOr<std::string> HostOf(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == listen.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: \"", listen, "\" is not HOST:PORT"));
  }
  return listen.substr(0, colon);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerConfig& config) {
  grpc::EnableDefaultHealthCheckService(true);
  // Reflection describes what is linked in, and gRPC's own health service is
  // not.
  google::protobuf::LinkMessageReflection<
      grpc::health::v1::HealthCheckRequest>();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  ASSIGN_OR_RETURN(auto tokens, OpenTokens(config));
  ASSIGN_OR_RETURN(auto engine, Engine::Open(config));
  for (const absl::Status& error : engine->registry->Unreadable()) {
    std::fprintf(stderr, "a model version cannot be used: %s\n",
                 std::string(error.message()).c_str());
  }
  for (const absl::Status& error : engine->damaged_jobs) {
    std::fprintf(stderr, "a job cannot go on: %s\n",
                 std::string(error.message()).c_str());
  }
  for (const absl::Status& error : engine->lost_sessions) {
    std::fprintf(stderr, "a session cannot go on: %s\n",
                 std::string(error.message()).c_str());
  }
  auto server =
      std::unique_ptr<Server>(new Server(std::move(engine), std::move(tokens)));
  RETURN_IF_ERROR(server->Listen());
  return server;
}

Server::Server(std::unique_ptr<Engine> engine,
               std::unique_ptr<TokenFile> tokens)
    : engine_(std::move(engine)),
      services_(Services(*engine_)),
      gate_(std::move(tokens), engine_->config.max_calls_per_client()) {}

absl::Status Server::Listen() {
  const ServerConfig& config = engine_->config;
  ASSIGN_OR_RETURN(const std::string host, HostOf(config.listen()));
  int port = 0;
  grpc::ServerBuilder builder;
  // Two servers on one port would each get some of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A client that vanished without a word gives its streams back.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             kKeepaliveTimeoutMs);
  builder.SetMaxReceiveMessageSize(
      static_cast<int>(config.max_message_bytes()));
  builder.SetMaxSendMessageSize(static_cast<int>(config.max_message_bytes()));
  builder.AddListeningPort(config.listen(), grpc::InsecureServerCredentials(),
                           &port);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(NewGateInterceptors(gate_, counts_));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (const auto& service : services_) builder.RegisterService(service.get());
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", config.listen(),
                     ": the port is in use or the address is not ours"));
  }
  address_ = absl::StrCat(host, ":", port);
  return absl::OkStatus();
}

void Server::Drain(absl::Duration timeout) {
  if (grpc_ == nullptr) return;
  const absl::Time deadline = absl::Now() + timeout;
  grpc_->GetHealthCheckService()->SetServingStatus(false);
  gate_.Close();
  engine_->draining.Give();
  // Watchers of jobs go when the jobs have stopped.
  std::thread jobs([this] {
    engine_->job_runner.Shutdown();
    engine_->jobs_stopped.Give();
  });
  const bool done = engine_->calls.AwaitNone(deadline);
  if (!done) engine_->calls.StopAll();
  grpc_->Shutdown(
      absl::ToChronoTime(absl::Now() + (done ? kWatchGrace : kStopGrace)));
  jobs.join();
  grpc_->Wait();
  grpc_.reset();
  // Nobody calls any more.
  engine_->SaveSessions();
  engine_->trainers->SaveAll();
}

Server::~Server() { Drain(absl::ZeroDuration()); }

}  // namespace recurve::server
