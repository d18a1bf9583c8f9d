#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/jobs/job_store.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Set by every notification, consumed by the thread that waits.
class Signal {
 public:
  void Set() {
    absl::MutexLock lock(&mutex_);
    set_ = true;
  }
  // False if the deadline passes first.
  bool WaitUntil(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    const bool set = mutex_.AwaitWithDeadline(absl::Condition(&set_), deadline);
    set_ = false;
    return set;
  }

 private:
  absl::Mutex mutex_;
  bool set_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::StatusOr<bool> WaitForEvent(JobStore& store, absl::string_view id,
                                  int64_t number, absl::Time deadline) {
  Signal changed;
  ASSIGN_OR_RETURN(const auto subscription,
                   store.Subscribe(id, [&changed] { changed.Set(); }));
  while (changed.WaitUntil(deadline)) {
    // The state before the events: an ended job gets no more.
    ASSIGN_OR_RETURN(const Job job, store.Get(id));
    ASSIGN_OR_RETURN(const auto events, store.Events(id, number, 1));
    if (!events.empty()) return true;
    if (HasEnded(job.state)) return false;
  }
  return false;
}

absl::StatusOr<Job> WaitForEnd(JobStore& store, absl::string_view id,
                               absl::Time deadline) {
  Signal changed;
  ASSIGN_OR_RETURN(const auto subscription,
                   store.Subscribe(id, [&changed] { changed.Set(); }));
  while (changed.WaitUntil(deadline)) {
    ASSIGN_OR_RETURN(Job job, store.Get(id));
    if (HasEnded(job.state)) return job;
  }
  return absl::DeadlineExceededError(
      absl::StrCat("jobs/", id, " has not ended yet"));
}

}  // namespace recurve
