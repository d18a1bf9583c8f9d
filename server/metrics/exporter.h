// Metrics over HTTP, for Prometheus to fetch.
#ifndef RECURVE_SERVER_METRICS_EXPORTER_H_
#define RECURVE_SERVER_METRICS_EXPORTER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/metrics/family.h"

namespace recurve::server {

class Exporter {
 public:
  // Answers GET /metrics on HOST:PORT, port 0 for one that is free, with what
  // `collect` then gives, called on a thread of its own. Unavailable if it
  // cannot listen there.
  static absl::StatusOr<std::unique_ptr<Exporter>> Start(
      const std::string& listen, std::function<Families()> collect);
  // Waits for an answer that is being given.
  ~Exporter();

  // HOST:PORT, with the port that was picked for port 0.
  const std::string& address() const { return address_; }

 private:
  class Impl;

  Exporter();

  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_METRICS_EXPORTER_H_
