// A load on a server: many clients, or calls at random times, from one thread.
//
// Requests are encoded before the clock starts and replies are not decoded, so
// that the load takes as little as it can from the cores that it shares with
// the server.
#ifndef RECURVE_TESTS_BENCHMARKS_SERVING_LOAD_H_
#define RECURVE_TESTS_BENCHMARKS_SERVING_LOAD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "nlohmann/json.hpp"
#include "tests/benchmarks/serving/latencies.h"

namespace recurve::serving {

struct LoadRequest {
  grpc::ByteBuffer message;
  int64_t rows = 0;
};

struct LoadOptions {
  std::string server;                 // HOST:PORT
  std::string method;                 // /package.Service/Method
  std::vector<LoadRequest> requests;  // sent one after another, in a circle,
  bool keep_request = false;  // or client i sends request i again and again
  // Each sends its next request when it has the reply to its last (a closed
  // loop)...
  int clients = 64;
  // ...unless this many requests a second are sent at the times of a Poisson
  // process, whatever has been answered (an open loop); 0: the closed one.
  double rate = 0;
  int connections = 64;
  absl::Duration deadline = absl::InfiniteDuration();  // of each request
  absl::Duration warm_up = absl::Seconds(1);           // before it counts
  absl::Duration duration = absl::Seconds(5);
};

// Of the calls that ended while it counted.
struct LoadReport {
  absl::Duration duration;
  int64_t rows = 0;                         // of calls that went well
  Latencies answered;                       // calls that went well
  Latencies refused;                        // RESOURCE_EXHAUSTED
  int64_t refused_with_hint = 0;            // that say when to come back
  std::map<std::string, int64_t> codes;     // calls by status code
  std::map<std::string, int64_t> messages;  // of errors, a few of each
  double load_cpu_seconds = 0;              // of this process

  nlohmann::json ToJson() const;
};

// In an open loop a call's time counts from the moment that it was due, so a
// server that holds up the load does not hide it.
LoadReport RunLoad(const LoadOptions& options);

}  // namespace recurve::serving

#endif  // RECURVE_TESTS_BENCHMARKS_SERVING_LOAD_H_
