// A few threads for work that blocks, so that RPC threads never do.
#ifndef RECURVE_SERVER_WORK_QUEUE_H_
#define RECURVE_SERVER_WORK_QUEUE_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace recurve::server {

// Thread-safe. Work begins in the order given.
class WorkQueue {
 public:
  using Work = std::function<void()>;

  // `name` is for messages.
  WorkQueue(std::string name, int num_threads, int max_queued);
  // Finishes what was accepted.
  ~WorkQueue();

  // ResourceExhausted at once if `max_queued` others wait.
  absl::Status TryAdd(Work work);
  // The next piece of something already accepted, of which there is one piece
  // at a time: never refused.
  void AddPiece(Work work);

 private:
  void Run();

  const std::string name_;
  const size_t max_queued_;
  absl::Mutex mutex_;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_WORK_QUEUE_H_
