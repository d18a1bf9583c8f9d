// How many calls each client has at once, and that none has too many.
#ifndef RECURVE_SERVER_ACCESS_CLIENT_CALLS_H_
#define RECURVE_SERVER_ACCESS_CLIENT_CALLS_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace recurve::server {

// Thread-safe.
class ClientCalls {
 public:
  explicit ClientCalls(int max_calls_per_client)
      : max_calls_(max_calls_per_client) {}

  // ResourceExhausted, with a retry hint, beyond the limit; otherwise End must
  // follow.
  absl::Status Begin(const std::string& client);
  void End(absl::string_view client);

  int clients() const;  // that have calls

 private:
  const int max_calls_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, int> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_CLIENT_CALLS_H_
