#include "engine/schedule/device.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/serving_share.h"

namespace recurve {

// --- One device ---

class DeviceWorker::Impl {
 public:
  Impl(int index, const DeviceSpec& spec, BackendFactory factory,
       const DeviceOptions& options)
      : name_(absl::StrCat("devices/", index)),
        spec_(spec),
        factory_(std::move(factory)),
        ledger_({.name = name_,
                 .budget_bytes = spec_.memory_bytes,
                 .workspace_bytes = WorkspacePlan(spec_).total(),
                 .serving_floor_bytes =
                     ServingFloor(spec_, options.serving_memory_share)}),
        now_(options.now),
        share_(options.serving_share),
        since_(now_()),
        load_(since_),
        thread_([this] { Run(); }) {}
  ~Impl() { Drain(); }

  const std::string& name() const { return name_; }
  const DeviceSpec& spec() const { return spec_; }
  Ledger& ledger() { return ledger_; }
  bool OnThread() const {
    return std::this_thread::get_id() == thread_.get_id();
  }

  absl::Status WaitForBackend() const {
    const auto started = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return started_.has_value();
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&started));
    return *started_;
  }

  void Enqueue(TaskClass task_class, Task task) {
    absl::MutexLock lock(&mutex_);
    Queue& queue = QueueOf(task_class);
    if (queue.tasks.empty()) queue.waits_since = now_();
    queue.tasks.push_back(std::move(task));
  }

  void ServeWaiting() {
    while (std::optional<Task> task = NextWithinTraining()) {
      (*task)(*backend_);
      task.reset();
      SwitchTo(TaskClass::kTraining);
    }
  }

  // On the worker's thread, within a training task: serves until `ready`, whose
  // setter calls Wake. Waiting for it is not work.
  void ServeUntil(const std::atomic<bool>& ready) {
    const auto readiness = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return ready.load() || !serving_.tasks.empty();
    };
    SwitchTo(std::nullopt);
    for (;;) {
      Task task;
      {
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(&readiness));
        if (ready.load()) break;
        Switch(TaskClass::kServing, Other::kDoesNotWait);
        task = Pop(serving_);
      }
      task(*backend_);
      task = nullptr;
      SwitchTo(std::nullopt);
    }
    SwitchTo(TaskClass::kTraining);
  }

  // Makes ServeUntil look at its flag.
  void Wake() { absl::MutexLock lock(&mutex_); }

  void AddRows(int64_t rows) {
    absl::MutexLock lock(&mutex_);
    rows_ += rows;
    load_.AddRows(rows, now_());
  }

  // Tasks waiting or running.
  int64_t load() const {
    absl::MutexLock lock(&mutex_);
    return Waiting() + (in_task_ ? 1 : 0);
  }

  DeviceStats stats() const {
    DeviceStats stats;
    absl::MutexLock lock(&mutex_);
    const absl::Duration now = now_();
    LoadWindow window = load_;
    absl::Duration busy = busy_;
    if (running_.has_value()) {
      window.AddBusy(*running_, since_, now);
      busy += now - since_;
    }
    stats.rows = rows_;
    stats.busy_seconds = absl::ToDoubleSeconds(busy);
    stats.queued_tasks = Waiting();
    stats.load = window.At(now);
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
  struct Queue {
    std::deque<Task> tasks;
    absl::Duration waits_since;  // the queue is not empty
  };
  // What the class that is not running does meanwhile.
  enum class Other { kMayComeToWait, kWaits, kDoesNotWait };

  void Run() {
    // Whatever OMP_NUM_THREADS says: these settings are the thread's own.
    omp_set_dynamic(0);
    omp_set_num_threads(spec_.threads);
    auto backend = factory_(spec_);
    Started(backend.status());
    if (!backend.ok()) return;
    backend_ = *std::move(backend);
    while (std::optional<Task> task = NextTask()) {
      (*task)(*backend_);
      task.reset();  // what it holds goes before it counts as finished
      Finished();
    }
    backend_.reset();
  }

  void Started(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    started_ = status;
  }

  // Waits for a task; nothing once drained.
  std::optional<Task> NextTask() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Impl::HasWorkOrDrains));
    if (Waiting() == 0) return std::nullopt;
    const TaskClass next = NextClass();
    in_task_ = true;
    Switch(next, Other::kMayComeToWait);
    return Pop(QueueOf(next));
  }

  TaskClass NextClass() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (training_.tasks.empty()) share_.Idle(TaskClass::kTraining);
    if (serving_.tasks.empty()) share_.Idle(TaskClass::kServing);
    const bool serves = !serving_.tasks.empty() &&
                        (training_.tasks.empty() || share_.ServesNext());
    return serves ? TaskClass::kServing : TaskClass::kTraining;
  }

  // A serving task if one goes before the rest of the training task that runs.
  std::optional<Task> NextWithinTraining() {
    absl::MutexLock lock(&mutex_);
    Switch(TaskClass::kTraining, Other::kMayComeToWait);
    if (serving_.tasks.empty()) {
      share_.Idle(TaskClass::kServing);
      return std::nullopt;
    }
    if (!share_.ServesNext()) return std::nullopt;
    Switch(TaskClass::kServing, Other::kWaits);
    return Pop(serving_);
  }

  void Finished() {
    absl::MutexLock lock(&mutex_);
    Switch(std::nullopt, Other::kMayComeToWait);
    in_task_ = false;
  }

  void SwitchTo(std::optional<TaskClass> next) {
    absl::MutexLock lock(&mutex_);
    Switch(next, Other::kMayComeToWait);
  }

  // From now on the thread works for `next`, or for nobody; until now it did
  // for running_.
  void Switch(std::optional<TaskClass> next, Other other)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Duration now = now_();
    if (running_.has_value()) {
      busy_ += now - since_;
      load_.AddBusy(*running_, since_, now);
      share_.Took(*running_, BothWorked(now));
    }
    running_ = next;
    since_ = now;
    other_ = other;
  }

  // How long of the time from since_ on both classes had work.
  absl::Duration BothWorked(absl::Duration now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (other_ == Other::kDoesNotWait) return absl::ZeroDuration();
    if (other_ == Other::kWaits) return now - since_;
    const Queue& queue =
        *running_ == TaskClass::kServing ? training_ : serving_;
    if (queue.tasks.empty()) return absl::ZeroDuration();
    return now - std::max(since_, queue.waits_since);
  }

  static Task Pop(Queue& queue) {
    Task task = std::move(queue.tasks.front());
    queue.tasks.pop_front();
    return task;
  }

  Queue& QueueOf(TaskClass task_class) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return task_class == TaskClass::kServing ? serving_ : training_;
  }
  int64_t Waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<int64_t>(serving_.tasks.size() + training_.tasks.size());
  }
  bool HasWorkOrDrains() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return draining_ || Waiting() > 0;
  }

  const std::string name_;
  const DeviceSpec spec_;
  const BackendFactory factory_;
  Ledger ledger_;
  const std::function<absl::Duration()> now_;
  std::unique_ptr<Backend> backend_;  // the worker thread's alone

  mutable absl::Mutex mutex_;
  std::optional<absl::Status> started_ ABSL_GUARDED_BY(mutex_);
  Queue serving_ ABSL_GUARDED_BY(mutex_);
  Queue training_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  ServingShare share_ ABSL_GUARDED_BY(mutex_);

  // What the thread works for, since when; nothing while it waits.
  bool in_task_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<TaskClass> running_ ABSL_GUARDED_BY(mutex_);
  absl::Duration since_ ABSL_GUARDED_BY(mutex_);
  Other other_ ABSL_GUARDED_BY(mutex_) = Other::kMayComeToWait;

  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration busy_ ABSL_GUARDED_BY(mutex_);  // until since_
  LoadWindow load_ ABSL_GUARDED_BY(mutex_);      // likewise

  std::thread thread_;  // last: it uses all the others
};

absl::Duration MonotonicTime() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

DeviceWorker::DeviceWorker(int index, const DeviceSpec& spec,
                           BackendFactory factory, const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(index, spec, std::move(factory), options)) {}
DeviceWorker::~DeviceWorker() = default;

absl::Status DeviceWorker::WaitForBackend() const {
  return impl_->WaitForBackend();
}
std::string DeviceWorker::name() const { return impl_->name(); }
const DeviceSpec& DeviceWorker::spec() const { return impl_->spec(); }
Ledger& DeviceWorker::ledger() { return impl_->ledger(); }
const Ledger& DeviceWorker::ledger() const { return impl_->ledger(); }
bool DeviceWorker::OnThread() const { return impl_->OnThread(); }
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
  Impl(const std::vector<DeviceSpec>& specs, const BackendFactory& factory,
       const DeviceOptions& options) {
    for (size_t i = 0; i < specs.size(); ++i) {
      workers_.push_back(std::make_unique<DeviceWorker>(
          static_cast<int>(i), specs[i], factory, options));
    }
  }
  // A gang's tasks use all the workers, so all end before the first is gone.
  ~Impl() {
    for (const auto& worker : workers_) worker->impl_->Drain();
  }

  int size() const { return static_cast<int>(workers_.size()); }
  DeviceWorker& device(int rank) { return *workers_[rank]; }

  std::vector<int> ByLoad(std::vector<int> ranks) const {
    std::vector<int64_t> loads;  // of all, so that they do not change meanwhile
    for (const auto& worker : workers_) loads.push_back(worker->impl_->load());
    std::stable_sort(ranks.begin(), ranks.end(),
                     [&](int a, int b) { return loads[a] < loads[b]; });
    return ranks;
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
                       BackendFactory factory, const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(specs, factory, options)) {}
absl::StatusOr<std::unique_ptr<DevicePool>> DevicePool::Create(
    const std::vector<DeviceSpec>& specs, BackendFactory factory,
    const DeviceOptions& options) {
  auto pool = std::make_unique<DevicePool>(specs, std::move(factory), options);
  for (int rank = 0; rank < pool->size(); ++rank) {
    const DeviceWorker& device = pool->device(rank);
    const absl::Status status = device.WaitForBackend();
    if (status.ok()) continue;
    return absl::Status(status.code(),
                        absl::StrCat("device \"", device.spec().text,
                                     "\": ", status.message()));
  }
  return pool;
}
DevicePool::~DevicePool() = default;

int DevicePool::size() const { return impl_->size(); }
DeviceWorker& DevicePool::device(int rank) { return impl_->device(rank); }
std::vector<int> DevicePool::ByLoad(std::vector<int> ranks) const {
  return impl_->ByLoad(std::move(ranks));
}
void DevicePool::EnqueueGang(GangTask task, std::function<void()> done) {
  impl_->EnqueueGang(false, std::move(task), std::move(done));
}
void DevicePool::EnqueueCollective(GangTask task, std::function<void()> done) {
  impl_->EnqueueGang(true, std::move(task), std::move(done));
}

}  // namespace recurve
