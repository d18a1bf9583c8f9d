// How a running job is told to stop.
#ifndef RECURVE_ENGINE_JOBS_JOB_CONTROL_H_
#define RECURVE_ENGINE_JOBS_JOB_CONTROL_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace recurve {

// In ascending order of rank.
enum class StopRequest {
  kNone,
  kShutdown,  // of the server: the job goes back to the queue
  kPause,
  kCancel,
};

// Of one run of one job. Thread-safe.
class JobControl {
 public:
  // Takes effect at the run's next micro-batch. A request of a lower rank than
  // one before it changes nothing. Whoever pauses or cancels has made the job
  // PAUSING or CANCELLING before: the run relies on it.
  void Stop(StopRequest request);
  StopRequest requested() const;
  // Whether anything has been requested, for Trainer::Step.
  const std::atomic<bool>& stopping() const { return stopping_; }

  // Whether a shutdown has been requested, at whatever rank since; waits for
  // one up to `timeout`.
  bool WaitForShutdown(absl::Duration timeout);

 private:
  mutable absl::Mutex mutex_;
  StopRequest requested_ ABSL_GUARDED_BY(mutex_) = StopRequest::kNone;
  bool shutdown_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stopping_ = false;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_CONTROL_H_
