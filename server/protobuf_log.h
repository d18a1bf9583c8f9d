// What protobuf says on stderr.
#ifndef RECURVE_SERVER_PROTOBUF_LOG_H_
#define RECURVE_SERVER_PROTOBUF_LOG_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace recurve::server {

// Lets one line a minute through. Thread-safe.
class LogLimit {
 public:
  // What to write of `line`, which comes at `now`: nothing, or the line and how
  // many were left out before it.
  std::string Admit(absl::string_view line, absl::Time now);

 private:
  absl::Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Protobuf has a line for each message with a string that is not UTF-8, which
// any client can send: from now on such lines go through a LogLimit. Before
// other threads use protobuf.
void LimitProtobufLog();

}  // namespace recurve::server

#endif  // RECURVE_SERVER_PROTOBUF_LOG_H_
