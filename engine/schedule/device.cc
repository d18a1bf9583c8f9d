#include "engine/schedule/device.h"

#include <omp.h>

#include <deque>
#include <limits>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/schedule/counting_backend.h"

namespace recurve {

// --- One device ---

class DeviceWorker::Impl {
 public:
  Impl(int index, const DeviceSpec& spec, BackendFactory factory)
      : name_(absl::StrCat("devices/", index)),
        spec_(spec),
        factory_(std::move(factory)),
        thread_([this] { Run(); }) {}
  ~Impl() { Drain(); }

  const std::string& name() const { return name_; }
  const DeviceSpec& spec() const { return spec_; }

  void Enqueue(TaskClass task_class, Task task) {
    absl::MutexLock lock(&mutex_);
    (task_class == TaskClass::kServing ? serving_ : training_)
        .push_back(std::move(task));
  }

  // Only what waits now: a steady stream of requests must not starve the
  // training task that called.
  void ServeWaiting() {
    size_t waiting;
    {
      absl::MutexLock lock(&mutex_);
      waiting = serving_.size();
    }
    for (; waiting > 0; --waiting) TakeServing()(*backend_);
  }

  // On the worker's thread: serves until `ready`, whose setter calls Wake.
  void ServeUntil(const std::atomic<bool>& ready) {
    const auto readiness = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return ready.load() || !serving_.empty();
    };
    for (;;) {
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(&readiness));
        if (ready.load()) return;
      }
      TakeServing()(*backend_);
    }
  }

  // Makes ServeUntil look at its flag.
  void Wake() { absl::MutexLock lock(&mutex_); }

  void AddRows(int64_t rows) { rows_.fetch_add(rows); }

  // Tasks waiting or running.
  int64_t load() const {
    absl::MutexLock lock(&mutex_);
    return Waiting() + (running_since_.has_value() ? 1 : 0);
  }

  DeviceStats stats() const {
    DeviceStats stats;
    stats.rows = rows_.load();
    stats.memory_bytes = allocated_bytes_->load();
    absl::MutexLock lock(&mutex_);
    absl::Duration busy = busy_;
    if (running_since_.has_value()) busy += absl::Now() - *running_since_;
    stats.busy_seconds = absl::ToDoubleSeconds(busy);
    stats.queued_tasks = Waiting();
    return stats;
  }

  // Finishes the queue and ends the thread.
  void Drain() {
    {
      absl::MutexLock lock(&mutex_);
      draining_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    // Whatever OMP_NUM_THREADS says: these settings are the thread's own.
    omp_set_dynamic(0);
    omp_set_num_threads(spec_.threads);
    backend_ = std::make_unique<CountingBackend>(
        factory_(spec_), allocated_bytes_, spec_.memory_bytes);
    while (std::optional<Task> task = NextTask()) {
      (*task)(*backend_);
      task.reset();  // what it holds goes before it counts as finished
      Finished();
    }
    backend_.reset();
  }

  // Waits for a task; nothing once drained.
  std::optional<Task> NextTask() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Impl::HasWorkOrDrains));
    if (Waiting() == 0) return std::nullopt;
    running_since_ = absl::Now();
    if (TrainsNext()) {
      serve_first_.reset();
      return Pop(training_);
    }
    if (serve_first_.has_value()) --*serve_first_;
    return Pop(serving_);
  }

  // Serving that waits when a training task's turn comes goes first. What comes
  // later does not: a long request has its next chunk in the queue at any time.
  bool TrainsNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (training_.empty()) return false;
    if (!serve_first_.has_value()) serve_first_ = serving_.size();
    return *serve_first_ == 0;
  }

  void Finished() {
    absl::MutexLock lock(&mutex_);
    busy_ += absl::Now() - *running_since_;
    running_since_.reset();
  }

  Task TakeServing() {
    absl::MutexLock lock(&mutex_);
    return Pop(serving_);
  }

  static Task Pop(std::deque<Task>& queue) {
    Task task = std::move(queue.front());
    queue.pop_front();
    return task;
  }

  int64_t Waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<int64_t>(serving_.size() + training_.size());
  }
  bool HasWorkOrDrains() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return draining_ || Waiting() > 0;
  }

  const std::string name_;
  const DeviceSpec spec_;
  const BackendFactory factory_;
  const std::shared_ptr<std::atomic<int64_t>> allocated_bytes_ =
      std::make_shared<std::atomic<int64_t>>(0);
  std::atomic<int64_t> rows_ = 0;
  std::unique_ptr<Backend> backend_;  // the worker thread's alone

  mutable absl::Mutex mutex_;
  std::deque<Task> serving_ ABSL_GUARDED_BY(mutex_);
  std::deque<Task> training_ ABSL_GUARDED_BY(mutex_);
  // Serving tasks that go before the first of training_, once counted.
  std::optional<size_t> serve_first_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the task that NextTask gave out; serving within it is not added.
  std::optional<absl::Time> running_since_ ABSL_GUARDED_BY(mutex_);
  absl::Duration busy_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it uses all the others
};

DeviceWorker::DeviceWorker(int index, const DeviceSpec& spec,
                           BackendFactory factory)
    : impl_(std::make_unique<Impl>(index, spec, std::move(factory))) {}
DeviceWorker::~DeviceWorker() = default;

std::string DeviceWorker::name() const { return impl_->name(); }
const DeviceSpec& DeviceWorker::spec() const { return impl_->spec(); }
void DeviceWorker::Enqueue(TaskClass task_class, Task task) {
  impl_->Enqueue(task_class, std::move(task));
}
void DeviceWorker::ServeWaiting() { impl_->ServeWaiting(); }
void DeviceWorker::AddRows(int64_t rows) { impl_->AddRows(rows); }
DeviceStats DeviceWorker::stats() const { return impl_->stats(); }

// --- All devices ---

namespace {

// What the tasks of one gang share.
struct Gang {
  Gang(int size, DevicePool::GangTask task, std::function<void()> done)
      : task(std::move(task)),
        done(std::move(done)),
        missing(size),
        unfinished(size) {}

  const DevicePool::GangTask task;
  const std::function<void()> done;
  std::atomic<int> missing;  // devices that have not come yet
  std::atomic<bool> complete = false;
  std::atomic<int> unfinished;
};

}  // namespace

class DevicePool::Impl {
 public:
  Impl(const std::vector<DeviceSpec>& specs, const BackendFactory& factory) {
    for (size_t i = 0; i < specs.size(); ++i) {
      workers_.push_back(std::make_unique<DeviceWorker>(static_cast<int>(i),
                                                        specs[i], factory));
    }
  }
  // A gang's tasks use all the workers, so all end before the first is gone.
  ~Impl() {
    for (const auto& worker : workers_) worker->impl_->Drain();
  }

  int size() const { return static_cast<int>(workers_.size()); }
  DeviceWorker& device(int rank) { return *workers_[rank]; }

  DeviceWorker& LeastLoaded() {
    int best = 0;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int rank = 0; rank < size(); ++rank) {
      const int64_t load = workers_[rank]->impl_->load();
      if (load < least) {
        least = load;
        best = rank;
      }
    }
    return *workers_[best];
  }

  void EnqueueGang(bool together, GangTask task, std::function<void()> done) {
    const auto gang =
        std::make_shared<Gang>(size(), std::move(task), std::move(done));
    absl::MutexLock lock(&gang_mutex_);
    for (int rank = 0; rank < size(); ++rank) {
      workers_[rank]->Enqueue(TaskClass::kTraining,
                              [this, together, gang, rank](Backend& backend) {
                                if (together) Meet(*gang, rank);
                                gang->task(rank, backend);
                                if (gang->unfinished.fetch_sub(1) == 1)
                                  gang->done();
                              });
    }
  }

 private:
  void Meet(Gang& gang, int rank) {
    if (gang.missing.fetch_sub(1) == 1) {
      gang.complete.store(true);
      for (const auto& worker : workers_) worker->impl_->Wake();
    }
    workers_[rank]->impl_->ServeUntil(gang.complete);
  }

  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  // Held while one gang is put on all queues.
  absl::Mutex gang_mutex_;
};

DevicePool::DevicePool(const std::vector<DeviceSpec>& specs,
                       BackendFactory factory)
    : impl_(std::make_unique<Impl>(specs, factory)) {}
DevicePool::~DevicePool() = default;

int DevicePool::size() const { return impl_->size(); }
DeviceWorker& DevicePool::device(int rank) { return impl_->device(rank); }
DeviceWorker& DevicePool::LeastLoaded() { return impl_->LeastLoaded(); }
void DevicePool::EnqueueGang(GangTask task, std::function<void()> done) {
  impl_->EnqueueGang(false, std::move(task), std::move(done));
}
void DevicePool::EnqueueCollective(GangTask task, std::function<void()> done) {
  impl_->EnqueueGang(true, std::move(task), std::move(done));
}

}  // namespace recurve
