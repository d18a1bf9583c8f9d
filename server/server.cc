#include "server/server.h"

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/message.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/server_builder.h"
#include "kernels/status.h"
#include "proto/grpc/health/v1/health.pb.h"
#include "server/access/gated_call.h"
#include "server/kserve/service.h"
#include "server/metrics/engine_metrics.h"
#include "server/protobuf_log.h"
#include "server/services/services.h"

namespace recurve::server {
namespace {

// For calls to see that they are stopped, before gRPC cuts them off.
constexpr absl::Duration kStopGrace = absl::Seconds(5);
// For clients that had their last answer just now and send their next request:
// the gate says UNAVAILABLE, gRPC itself, once it shuts down, CANCELLED.
constexpr absl::Duration kLastRefusals = absl::Milliseconds(200);
// For those who still watch its health when nothing else is left.
constexpr absl::Duration kWatchGrace = absl::Seconds(1);

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

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerConfig& config) {
  LimitProtobufLog();
  grpc::EnableDefaultHealthCheckService(true);
  // Reflection describes what is linked in, and gRPC's own health service is
  // not.
  google::protobuf::LinkMessageReflection<
      grpc::health::v1::HealthCheckRequest>();
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  ASSIGN_OR_RETURN(Listener listener, OpenListener(config));
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
  auto server = std::unique_ptr<Server>(
      new Server(std::move(engine), std::move(listener)));
  RETURN_IF_ERROR(server->ExportMetrics());
  RETURN_IF_ERROR(server->Listen());
  return server;
}

Server::Server(std::unique_ptr<Engine> engine, Listener listener)
    : listener_(std::move(listener)),
      engine_(std::move(engine)),
      services_(Services(*engine_)),
      gate_(std::move(listener_.tokens),
            engine_->config.max_calls_per_client()) {}

absl::Status Server::Listen() {
  int port = 0;
  grpc::ServerBuilder builder;
  Configure(listener_, builder, &port);
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(NewMethodNames(gate_, counts_));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (const auto& service : services_) builder.RegisterService(service.get());
  grpc_ = builder.BuildAndStart();
  if (grpc_ == nullptr || port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listener_.address,
                     ": the port is in use or the address is not ours"));
  }
  address_ = absl::StrCat(listener_.host, ":", port);
  return absl::OkStatus();
}

absl::Status Server::ExportMetrics() {
  const std::string& listen = engine_->config.metrics_listen();
  if (listen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(exporter_, Exporter::Start(listen, [this] {
                     return CollectMetrics(*engine_, counts_);
                   }));
  return absl::OkStatus();
}

std::string Server::metrics_address() const {
  return exporter_ == nullptr ? "" : exporter_->address();
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
  absl::SleepFor(std::min(kLastRefusals, deadline - absl::Now()));
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
