#include "engine/jobs/job_control.h"

#include <algorithm>

namespace recurve {

void JobControl::Stop(StopRequest request) {
  absl::MutexLock lock(&mutex_);
  requested_ = std::max(requested_, request);
  shutdown_ = shutdown_ || request == StopRequest::kShutdown;
  stopping_ = requested_ != StopRequest::kNone;
}

StopRequest JobControl::requested() const {
  absl::MutexLock lock(&mutex_);
  return requested_;
}

bool JobControl::WaitForShutdown(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&shutdown_), timeout);
}

}  // namespace recurve
