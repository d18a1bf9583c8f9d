// A client's connection to a server, which can be cut as when the client's
// machine goes away.
#ifndef RECURVE_TESTS_PRESSURE_CONNECTION_H_
#define RECURVE_TESTS_PRESSURE_CONNECTION_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/recurve/v1/compute.grpc.pb.h"
#include "proto/recurve/v1/sessions.grpc.pb.h"

namespace recurve::pressure {

// Thread-safe.
class Connection {
 public:
  // To 127.0.0.1:PORT. Ends the test program if nobody listens there.
  explicit Connection(const std::string& address);
  ~Connection();

  v1::Inference::Stub& inference() { return *inference_; }
  v1::Sessions::Stub& sessions() { return *sessions_; }

  // Without a word to the server; all calls on it end as UNAVAILABLE.
  void Cut();
  bool is_cut() const { return cut_; }

 private:
  const int socket_;  // a second name of the channel's
  std::atomic<bool> cut_{false};
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Sessions::Stub> sessions_;
};

// Some connections that many clients share. Thread-safe.
class Connections {
 public:
  Connections(const std::string& address, int count)
      : address_(address), connections_(count) {}

  // The client's, a new one if it has been cut.
  std::shared_ptr<Connection> Get(int client);

 private:
  const std::string address_;
  absl::Mutex mutex_;
  std::vector<std::shared_ptr<Connection>> connections_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve::pressure

#endif  // RECURVE_TESTS_PRESSURE_CONNECTION_H_
