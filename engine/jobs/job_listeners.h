// Who wants to be told when a job has new events.
#ifndef RECURVE_ENGINE_JOBS_JOB_LISTENERS_H_
#define RECURVE_ENGINE_JOBS_JOB_LISTENERS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace recurve {

// Keeps a notification going; destroyed, it waits for a call that is running
// (so never destroy it, nor call what takes a lock the callback wants, from
// inside the callback). Must not outlive the listeners.
class JobSubscription {
 public:
  explicit JobSubscription(std::function<void()> end) : end_(std::move(end)) {}
  JobSubscription(const JobSubscription&) = delete;
  JobSubscription& operator=(const JobSubscription&) = delete;
  ~JobSubscription() { end_(); }

 private:
  const std::function<void()> end_;
};

// Thread-safe.
class JobListeners {
 public:
  // Calls `notify` at once, then at each Notify for this job, one call at a
  // time, from the threads that do so.
  std::unique_ptr<JobSubscription> Add(const std::string& id,
                                       std::function<void()> notify);
  void Notify(absl::string_view id);

 private:
  class Listener;
  using Listeners = std::vector<std::shared_ptr<Listener>>;

  void Remove(const std::string& id, const std::shared_ptr<Listener>& listener);

  absl::Mutex mutex_;
  std::map<std::string, Listeners, std::less<>> of_job_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_LISTENERS_H_
