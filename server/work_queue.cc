#include "server/work_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve::server {

WorkQueue::WorkQueue(std::string name, int num_threads, int max_queued)
    : name_(std::move(name)), max_queued_(static_cast<size_t>(max_queued)) {
  for (int i = 0; i < num_threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

WorkQueue::~WorkQueue() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WorkQueue::TryAdd(Work work) {
  absl::MutexLock lock(&mutex_);
  if (queue_.size() >= max_queued_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        max_queued_, " calls wait for ", name_, " already; try again later"));
  }
  queue_.push_back(std::move(work));
  return absl::OkStatus();
}

void WorkQueue::AddPiece(Work work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void WorkQueue::Run() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closing_ || !queue_.empty();
  };
  while (true) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace recurve::server
