// A running server: the engine behind its services on one port.
#ifndef RECURVE_SERVER_SERVER_H_
#define RECURVE_SERVER_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/impl/codegen/service_type.h"
#include "grpcpp/server.h"
#include "server/access/call_counts.h"
#include "server/access/gate.h"
#include "server/access/listener.h"
#include "server/config.pb.h"
#include "server/engine.h"
#include "server/metrics/exporter.h"

namespace recurve::server {

class Server {
 public:
  // Listens and serves when it returns. Unavailable if an address cannot be
  // listened on, otherwise as Engine::Open.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerConfig& config);
  // Drain with no time.
  ~Server();

  // HOST:PORT, with the port that was picked for port 0.
  const std::string& address() const { return address_; }
  // Where the metrics are; empty if nowhere.
  std::string metrics_address() const;
  grpc::Server& grpc() { return *grpc_; }

  // Says NOT_SERVING, refuses new calls as UNAVAILABLE, stops jobs, and waits
  // for the calls that it has until `timeout` is over; what is left then ends
  // as UNAVAILABLE at its next micro-batch. Those who ask for health are
  // answered all the while. Then sessions and trainers are saved. Once.
  void Drain(absl::Duration timeout);

 private:
  Server(std::unique_ptr<Engine> engine, Listener listener);
  absl::Status Listen();
  absl::Status ExportMetrics();

  Listener listener_;
  const std::unique_ptr<Engine> engine_;
  const std::vector<std::unique_ptr<grpc::Service>> services_;
  Gate gate_;
  CallCounts counts_;
  std::string address_;
  std::unique_ptr<grpc::Server> grpc_;  // null after Drain
  std::unique_ptr<Exporter> exporter_;  // may be null
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVER_H_
