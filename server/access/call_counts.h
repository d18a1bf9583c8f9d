// How calls have ended, by method and status code.
#ifndef RECURVE_SERVER_ACCESS_CALL_COUNTS_H_
#define RECURVE_SERVER_ACCESS_CALL_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/status.h"

namespace recurve::server {

// Thread-safe.
class CallCounts {
 public:
  // (method, code) -> calls
  using Table = std::map<std::pair<std::string, grpc::StatusCode>, int64_t>;

  void Add(const std::string& method, grpc::StatusCode code) {
    absl::MutexLock lock(&mutex_);
    ++table_[{method, code}];
  }
  Table Snapshot() const {
    absl::MutexLock lock(&mutex_);
    return table_;
  }

 private:
  mutable absl::Mutex mutex_;
  Table table_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_CALL_COUNTS_H_
