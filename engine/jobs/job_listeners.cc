#include "engine/jobs/job_listeners.h"

#include <algorithm>

namespace recurve {

// Its mutex is held while its callback runs, that of all listeners never.
class JobListeners::Listener {
 public:
  explicit Listener(std::function<void()> notify)
      : notify_(std::move(notify)) {}

  void Notify() {
    absl::MutexLock lock(&mutex_);
    if (notify_) notify_();
  }
  void Silence() {
    absl::MutexLock lock(&mutex_);
    notify_ = nullptr;
  }

 private:
  absl::Mutex mutex_;
  std::function<void()> notify_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<JobSubscription> JobListeners::Add(
    const std::string& id, std::function<void()> notify) {
  auto listener = std::make_shared<Listener>(std::move(notify));
  {
    absl::MutexLock lock(&mutex_);
    of_job_[id].push_back(listener);
  }
  listener->Notify();
  return std::make_unique<JobSubscription>([this, id, listener] {
    Remove(id, listener);
    listener->Silence();
  });
}

void JobListeners::Remove(const std::string& id,
                          const std::shared_ptr<Listener>& listener) {
  absl::MutexLock lock(&mutex_);
  Listeners& listeners = of_job_[id];
  listeners.erase(std::find(listeners.begin(), listeners.end(), listener));
  if (listeners.empty()) of_job_.erase(id);
}

void JobListeners::Notify(absl::string_view id) {
  Listeners listeners;
  {
    absl::MutexLock lock(&mutex_);
    const auto at = of_job_.find(id);
    if (at != of_job_.end()) listeners = at->second;
  }
  for (const auto& listener : listeners) listener->Notify();
}

}  // namespace recurve
