#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/resource_id.h"
#include "engine/train/job_store.h"
#include "google/protobuf/util/message_differencer.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// One watcher. Its mutex is held while its callback runs, never the store's.
class Listener {
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

using Listeners = std::vector<std::shared_ptr<Listener>>;

void NotifyAll(const Listeners& listeners) {
  for (const auto& listener : listeners) listener->Notify();
}

struct Record {
  Job job;
  int64_t sequence = 0;  // the store's n-th job
  std::vector<JobEvent> events;
  bool full = false;  // no more metrics and warnings
  Listeners listeners;
};

absl::Status NotFound(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("jobs/", id, " not found"));
}

// Page tokens are the sequence number of the last job given.
absl::StatusOr<int64_t> ParseToken(absl::string_view token) {
  int64_t sequence = 0;
  if (absl::SimpleAtoi(token, &sequence) && sequence >= 0) return sequence;
  return absl::InvalidArgumentError(
      absl::StrCat("page_token: \"", token, "\" is not one that was given"));
}

absl::Status CheckTransition(const Job& job, JobState state) {
  if (MayFollow(job.state, state)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("jobs/", job.id, " is ", JobStateName(job.state),
                   " and cannot become ", JobStateName(state)));
}

void Enter(JobState state, absl::string_view cause, absl::Time now, Job* job) {
  job->state = state;
  job->cause = std::string(cause);
  if (state == JobState::kValidating && !job->start_time) {
    job->start_time = now;
  }
  if (HasEnded(state)) job->end_time = now;
}

class MemoryJobStore final : public JobStore {
 public:
  explicit MemoryJobStore(const JobStoreLimits& limits) : limits_(limits) {}

  absl::StatusOr<Job> Create(const JobRequest& request, bool* created) override;
  absl::StatusOr<Job> Get(absl::string_view id) const override;
  absl::StatusOr<Job> FindRequest(absl::string_view request_id) const override;
  absl::StatusOr<JobPage> List(int page_size,
                               absl::string_view page_token) const override;
  absl::StatusOr<Job> SetState(
      absl::string_view id, JobState state, absl::string_view cause,
      const std::function<void(Job&)>& change) override;
  absl::Status Report(absl::string_view id, const JobMetrics& metrics,
                      std::vector<DeviceTime> devices) override;
  absl::Status ReportEvaluation(absl::string_view id,
                                const JobEvaluation& evaluation,
                                bool best) override;
  absl::Status ReportCheckpoint(absl::string_view id,
                                const JobCheckpoint& checkpoint) override;
  absl::Status Warn(absl::string_view id, absl::string_view text) override;
  absl::StatusOr<std::vector<JobEvent>> Events(absl::string_view id,
                                               int64_t first,
                                               int limit) const override;
  absl::StatusOr<std::unique_ptr<JobSubscription>> Subscribe(
      absl::string_view id, std::function<void()> notify) override;

 private:
  class Subscription;
  using Records = std::map<std::string, Record, std::less<>>;

  absl::StatusOr<Record*> Find(absl::string_view id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<const Record*> Find(absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string UnusedId() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Edits the record under the lock, then tells its listeners.
  absl::Status Change(absl::string_view id,
                      const std::function<absl::Status(Record&)>& change);
  void AppendLimited(decltype(JobEvent::what) what, Record* record) const;
  void Unsubscribe(const std::string& id, const Listener* listener);

  const JobStoreLimits limits_;
  mutable absl::Mutex mutex_;
  Records records_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, const Record*> by_sequence_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, const Record*, std::less<>> by_request_
      ABSL_GUARDED_BY(mutex_);
  absl::BitGen random_ ABSL_GUARDED_BY(mutex_);
};

class MemoryJobStore::Subscription final : public JobSubscription {
 public:
  Subscription(MemoryJobStore& store, std::string id,
               std::shared_ptr<Listener> listener)
      : store_(store), id_(std::move(id)), listener_(std::move(listener)) {}
  ~Subscription() override {
    store_.Unsubscribe(id_, listener_.get());
    listener_->Silence();
  }

 private:
  MemoryJobStore& store_;
  const std::string id_;
  const std::shared_ptr<Listener> listener_;
};

void Append(decltype(JobEvent::what) what, Record* record) {
  JobEvent event;
  event.number = static_cast<int64_t>(record->events.size());
  event.time = absl::Now();
  event.what = std::move(what);
  record->events.push_back(std::move(event));
}

void MemoryJobStore::AppendLimited(decltype(JobEvent::what) what,
                                   Record* record) const {
  if (record->full) return;
  const auto count = static_cast<int64_t>(record->events.size());
  if (count + 1 < limits_.max_events_per_job) {
    return Append(std::move(what), record);
  }
  record->full = true;
  Append(JobWarning{"no further events of this job are kept but its states"},
         record);
}

absl::StatusOr<const Record*> MemoryJobStore::Find(absl::string_view id) const {
  const auto at = records_.find(id);
  if (at == records_.end()) return NotFound(id);
  return &at->second;
}

absl::StatusOr<Record*> MemoryJobStore::Find(absl::string_view id) {
  const auto at = records_.find(id);
  if (at == records_.end()) return NotFound(id);
  return &at->second;
}

std::string MemoryJobStore::UnusedId() {
  std::string id;
  do {
    id = absl::StrFormat("job-%08x", absl::Uniform<uint32_t>(random_));
  } while (records_.count(id) > 0);
  return id;
}

absl::StatusOr<Job> MemoryJobStore::Create(const JobRequest& request,
                                           bool* created) {
  *created = false;
  const std::string& id = request.id;
  if (!id.empty()) RETURN_IF_ERROR(CheckResourceId(id, "job_id"));
  absl::MutexLock lock(&mutex_);
  if (const auto at = by_request_.find(request.request_id);
      at != by_request_.end()) {
    const Job& job = at->second->job;
    if (google::protobuf::util::MessageDifferencer::Equals(job.spec,
                                                           request.spec)) {
      return job;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "request_id: \"", request.request_id, "\" was used for jobs/", job.id,
        ", which has another spec"));
  }
  if (records_.count(id) > 0) {
    return absl::AlreadyExistsError(
        absl::StrCat("jobs/", id, " is there already"));
  }
  const auto count = static_cast<int64_t>(records_.size());
  if (count >= limits_.max_jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat(count, " jobs are kept, the most there can be"));
  }
  const std::string name = id.empty() ? UnusedId() : id;
  Record& record = records_[name];
  record.sequence = count;
  record.job.id = name;
  record.job.spec = request.spec;
  record.job.owner = request.owner;
  record.job.priority = request.priority;
  record.job.create_time = absl::Now();
  Append(record.job, &record);
  by_sequence_[record.sequence] = &record;
  if (!request.request_id.empty()) by_request_[request.request_id] = &record;
  *created = true;
  return record.job;
}

absl::StatusOr<Job> MemoryJobStore::Get(absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Record* record, Find(id));
  return record->job;
}

absl::StatusOr<Job> MemoryJobStore::FindRequest(
    absl::string_view request_id) const {
  absl::MutexLock lock(&mutex_);
  const auto at = by_request_.find(request_id);
  if (at != by_request_.end()) return at->second->job;
  return absl::NotFoundError(
      absl::StrCat("no job of request \"", request_id, "\""));
}

absl::StatusOr<JobPage> MemoryJobStore::List(
    int page_size, absl::string_view page_token) const {
  if (page_size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: ", page_size, " is negative"));
  }
  const int limit = page_size == 0 ? 100 : std::min(page_size, kMaxPageSize);
  JobPage page;
  absl::MutexLock lock(&mutex_);
  auto at = by_sequence_.end();
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(const int64_t last, ParseToken(page_token));
    at = by_sequence_.lower_bound(last);
  }
  while (at != by_sequence_.begin() &&
         static_cast<int>(page.jobs.size()) < limit) {
    page.jobs.push_back((--at)->second->job);
  }
  if (at != by_sequence_.begin())
    page.next_page_token = absl::StrCat(at->first);
  return page;
}

absl::Status MemoryJobStore::Change(
    absl::string_view id, const std::function<absl::Status(Record&)>& change) {
  Listeners listeners;
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Record * record, Find(id));
    RETURN_IF_ERROR(change(*record));
    listeners = record->listeners;
  }
  NotifyAll(listeners);
  return absl::OkStatus();
}

absl::StatusOr<Job> MemoryJobStore::SetState(
    absl::string_view id, JobState state, absl::string_view cause,
    const std::function<void(Job&)>& change) {
  Job job;
  RETURN_IF_ERROR(Change(id, [&](Record& record) {
    RETURN_IF_ERROR(CheckTransition(record.job, state));
    if (change) change(record.job);
    Enter(state, cause, absl::Now(), &record.job);
    Append(record.job, &record);
    job = record.job;
    return absl::OkStatus();
  }));
  return job;
}

absl::Status MemoryJobStore::Report(absl::string_view id,
                                    const JobMetrics& metrics,
                                    std::vector<DeviceTime> devices) {
  return Change(id, [&](Record& record) {
    record.job.step = metrics.step;
    record.job.loss = metrics.loss;
    record.job.devices = std::move(devices);
    AppendLimited(metrics, &record);
    return absl::OkStatus();
  });
}

absl::Status MemoryJobStore::ReportEvaluation(absl::string_view id,
                                              const JobEvaluation& evaluation,
                                              bool best) {
  return Change(id, [&](Record& record) {
    if (best) record.job.best = evaluation;
    AppendLimited(evaluation, &record);
    return absl::OkStatus();
  });
}

absl::Status MemoryJobStore::ReportCheckpoint(absl::string_view id,
                                              const JobCheckpoint& checkpoint) {
  return Change(id, [&](Record& record) {
    record.job.checkpoint_step = checkpoint.step;
    AppendLimited(checkpoint, &record);
    return absl::OkStatus();
  });
}

absl::Status MemoryJobStore::Warn(absl::string_view id,
                                  absl::string_view text) {
  return Change(id, [&](Record& record) {
    AppendLimited(JobWarning{std::string(text)}, &record);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<JobEvent>> MemoryJobStore::Events(
    absl::string_view id, int64_t first, int limit) const {
  if (first < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_event: ", first, " is negative"));
  }
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Record* record, Find(id));
  const int most =
      limit <= 0 ? kMaxEventsAtOnce : std::min(limit, kMaxEventsAtOnce);
  const auto count = static_cast<int64_t>(record->events.size());
  const int64_t begin = std::min(first, count);
  const int64_t end = std::min(begin + most, count);
  return std::vector<JobEvent>(record->events.begin() + begin,
                               record->events.begin() + end);
}

absl::StatusOr<std::unique_ptr<JobSubscription>> MemoryJobStore::Subscribe(
    absl::string_view id, std::function<void()> notify) {
  auto listener = std::make_shared<Listener>(std::move(notify));
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(Record * record, Find(id));
    record->listeners.push_back(listener);
  }
  listener->Notify();
  return std::make_unique<Subscription>(*this, std::string(id), listener);
}

void MemoryJobStore::Unsubscribe(const std::string& id,
                                 const Listener* listener) {
  absl::MutexLock lock(&mutex_);
  Listeners& listeners = records_.find(id)->second.listeners;
  listeners.erase(std::find_if(
      listeners.begin(), listeners.end(),
      [listener](const auto& other) { return other.get() == listener; }));
}

}  // namespace

std::unique_ptr<JobStore> NewMemoryJobStore(const JobStoreLimits& limits) {
  return std::make_unique<MemoryJobStore>(limits);
}

}  // namespace recurve
