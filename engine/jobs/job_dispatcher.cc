#include "engine/jobs/job_dispatcher.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "engine/jobs/job_queue.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kRestartCause = "the server restarted";
constexpr absl::string_view kLostCause = "the run ended without a word";

absl::string_view CauseOf(JobChange change, JobState next) {
  switch (change) {
    case JobChange::kPause:
      return "paused on request";
    case JobChange::kResume:
      return next == JobState::kQueued
                 ? "resumed"
                 : "resumed; begins again once the pause has taken effect";
    case JobChange::kCancel:
      return "cancelled on request";
  }
  return "";
}

std::string FruitlessCause(const Job& job) {
  return absl::StrCat("began ", job.fruitless_starts,
                      " times without getting to a new checkpoint before the "
                      "server ended; see the server's log, then resume it: "
                      "recurve resume ",
                      job.id);
}

double DeviceSeconds(const Job& job) {
  double ms = 0;
  for (const DeviceTime& time : job.devices) {
    ms += time.compute_ms + time.exchange_ms + time.update_ms;
  }
  return ms / 1000;
}

std::string Count(int64_t count, absl::string_view verb,
                  absl::string_view verbs) {
  return count == 1 ? absl::StrCat("1 job ", verb)
                    : absl::StrCat(count, " jobs ", verbs);
}

}  // namespace

// The store has the states, entries_ what follows from them. Only Change and
// the run of a job change its state, so one that neither runs nor waits to be
// picked keeps its state while mutex_ is held.
class JobDispatcher::Impl {
 public:
  Impl(const Options& options, JobStore& jobs, Execute execute)
      : options_(options), jobs_(jobs), execute_(std::move(execute)) {}
  ~Impl() { Shutdown(); }

  absl::StatusOr<std::vector<absl::Status>> Start();
  absl::StatusOr<Job> Submit(const JobRequest& request);
  absl::StatusOr<Job> Change(absl::string_view id, JobChange change);
  absl::Status Delete(absl::string_view id,
                      const std::function<void()>& remove_files);
  void Explain(absl::Span<Job> jobs) const;
  void Shutdown();

 private:
  // kIsStuck: the store let it go no further; SettleJobs tries again.
  enum class Where { kWaits, kRuns, kIsPaused, kIsStuck };
  // An unfinished job.
  struct Entry {
    QueuedJob place;
    Where where = Where::kWaits;
    std::unique_ptr<JobControl> control;  // of the run, while it runs
    bool has_run = false;                 // since the dispatcher's start
    absl::Status error;                   // of the store, while it is stuck
  };

  void RunJobs();
  // Runs the job whose turn it is.
  void RunNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> Begin(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes up again, after a while, the jobs that are stuck.
  void SettleJobs();
  void Settle(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes what has come of taking a job up.
  void Note(const std::string& id, const absl::Status& taken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What becomes of a job whose run has left the server standing.
  absl::Status TakeBack(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What becomes of a job of the process before.
  absl::Status TakeOver(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a job that does not run to where its state belongs.
  absl::Status TakeUp(const Job& job, absl::string_view cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndFruitlessRow(const std::string& id) {
    return jobs_.Change(id, [](Job& job) { job.fruitless_starts = 0; })
        .status();
  }
  void AddEntry(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Put(const std::string& id, Where where)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Does what follows from the state that Change has given to a job.
  void Follow(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // What keeps a queued job from running, where `ahead` are to run before it.
  std::string Obstacle(const Entry& entry, int64_t ahead) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::string> WaitingInOrder() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  OwnerShares Shares() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t& CountOf(Where where) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return counts_[static_cast<size_t>(where)];
  }
  int64_t CountOf(Where where) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return counts_[static_cast<size_t>(where)];
  }
  absl::Status CheckRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Runs(absl::string_view id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto at = entries_.find(id);
    return at != entries_.end() && at->second.where == Where::kRuns;
  }
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shut_down_ || CountOf(Where::kWaits) > 0;
  }
  bool HasStuck() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shut_down_ || CountOf(Where::kIsStuck) > 0;
  }
  void WaitBeforeRetry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    mutex_.AwaitWithTimeout(absl::Condition(&shut_down_), options_.retry_delay);
  }

  const Options options_;
  JobStore& jobs_;
  const Execute execute_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  // Of the entries, by where they are.
  std::array<int64_t, 4> counts_ ABSL_GUARDED_BY(mutex_) = {};
  int64_t next_order_ ABSL_GUARDED_BY(mutex_) = 0;
  UseMeter use_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex join_mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(join_mutex_);
};

// --- From start to shutdown ---

absl::StatusOr<std::vector<absl::Status>> JobDispatcher::Impl::Start() {
  std::vector<absl::Status> damaged;
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const auto jobs, jobs_.Unfinished());
    for (const absl::StatusOr<Job>& job : jobs) {
      if (!job.ok()) {
        damaged.push_back(job.status());
        continue;
      }
      AddEntry(*job);
      use_.Add(job->owner, DeviceSeconds(*job), absl::Now());
      Note(job->id, TakeOver(*job));
    }
  }
  absl::MutexLock lock(&join_mutex_);
  for (int i = 0; i < options_.max_running; ++i) {
    threads_.emplace_back([this] { RunJobs(); });
  }
  threads_.emplace_back([this] { SettleJobs(); });
  return damaged;
}

void JobDispatcher::Impl::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
    for (auto& [id, entry] : entries_) {
      if (entry.control) entry.control->Stop(StopRequest::kShutdown);
    }
  }
  absl::MutexLock lock(&join_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

// --- Runs ---

void JobDispatcher::Impl::RunJobs() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &Impl::HasWork));
    if (shut_down_) return;
    RunNext();
  }
}

void JobDispatcher::Impl::RunNext() {
  const std::string id = WaitingInOrder().front();
  const auto begun = Begin(id);
  if (!begun.ok()) return Note(id, begun.status());
  Entry& entry = entries_.find(id)->second;
  mutex_.Unlock();
  execute_(*begun, *entry.control);
  mutex_.Lock();
  entry.control.reset();
  const auto job = jobs_.Get(id);
  if (!job.ok()) return Note(id, job.status());
  use_.Add(job->owner, DeviceSeconds(*job) - DeviceSeconds(*begun),
           absl::Now());
  Note(id, TakeBack(*job));
}

absl::StatusOr<Job> JobDispatcher::Impl::Begin(const std::string& id) {
  ASSIGN_OR_RETURN(Job job,
                   jobs_.SetState(id, JobState::kValidating, "", [](Job& job) {
                     ++job.runs;
                     ++job.fruitless_starts;
                   }));
  Put(id, Where::kRuns);
  Entry& entry = entries_.find(id)->second;
  entry.control = std::make_unique<JobControl>();
  entry.has_run = true;
  return job;
}

// --- Where jobs belong ---

void JobDispatcher::Impl::SettleJobs() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &Impl::HasStuck));
    WaitBeforeRetry();
    if (shut_down_) return;
    std::vector<std::string> stuck;
    for (const auto& [id, entry] : entries_) {
      if (entry.where == Where::kIsStuck) stuck.push_back(id);
    }
    for (const std::string& id : stuck) Settle(id);
  }
}

void JobDispatcher::Impl::Settle(const std::string& id) {
  const auto job = jobs_.Get(id);
  if (!job.ok()) return Note(id, job.status());
  const bool has_run = entries_.find(id)->second.has_run;
  Note(id, has_run ? TakeBack(*job) : TakeOver(*job));
}

void JobDispatcher::Impl::Note(const std::string& id,
                               const absl::Status& taken) {
  if (taken.ok()) return;
  Put(id, Where::kIsStuck);
  entries_.find(id)->second.error = taken;
}

absl::Status JobDispatcher::Impl::TakeBack(const Job& job) {
  if (!HasEnded(job.state) && job.fruitless_starts > 0) {
    RETURN_IF_ERROR(EndFruitlessRow(job.id));
  }
  return TakeUp(job, kLostCause);
}

absl::Status JobDispatcher::Impl::TakeOver(const Job& job) {
  RETURN_IF_ERROR(TakeUp(job, kRestartCause));
  if (AfterRestart(job.state) != JobState::kQueued ||
      job.fruitless_starts < kMaxFruitlessStarts) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Job paused, jobs_.SetState(job.id, JobState::kPaused,
                                                    FruitlessCause(job)));
  return TakeUp(paused, "");
}

absl::Status JobDispatcher::Impl::TakeUp(const Job& job,
                                         absl::string_view cause) {
  const JobState state = AfterRestart(job.state);
  if (state != job.state) {
    RETURN_IF_ERROR(jobs_.SetState(job.id, state, cause).status());
  }
  if (HasEnded(state)) {
    Forget(job.id);
  } else {
    Put(job.id, state == JobState::kQueued ? Where::kWaits : Where::kIsPaused);
  }
  return absl::OkStatus();
}

void JobDispatcher::Impl::AddEntry(const Job& job) {
  entries_[job.id].place = {job.owner, job.priority, next_order_++};
  ++CountOf(Where::kWaits);
}

void JobDispatcher::Impl::Put(const std::string& id, Where where) {
  Entry& entry = entries_.find(id)->second;
  --CountOf(entry.where);
  ++CountOf(where);
  entry.where = where;
}

void JobDispatcher::Impl::Forget(const std::string& id) {
  const auto at = entries_.find(id);
  --CountOf(at->second.where);
  entries_.erase(at);
}

// --- Requests ---

absl::StatusOr<Job> JobDispatcher::Impl::Submit(const JobRequest& request) {
  absl::MutexLock lock(&mutex_);
  if (shut_down_) return absl::UnavailableError("the server is shutting down");
  if (!jobs_.FindRequest(request.request_id).ok()) RETURN_IF_ERROR(CheckRoom());
  bool created = false;
  ASSIGN_OR_RETURN(Job job, jobs_.Create(request, &created));
  if (created) AddEntry(job);
  return job;
}

absl::StatusOr<Job> JobDispatcher::Impl::Change(absl::string_view id,
                                                JobChange change) {
  absl::MutexLock lock(&mutex_);
  while (true) {
    ASSIGN_OR_RETURN(const Job job, jobs_.Get(id));
    const auto next = AfterRequest(job.state, change);
    if (!next.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("jobs/", id, " ", next.status().message()));
    }
    if (*next == job.state) return job;
    if (*next == JobState::kQueued) RETURN_IF_ERROR(CheckRoom());
    auto changed =
        jobs_.SetState(id, *next, CauseOf(change, *next), [change](Job& job) {
          if (change == JobChange::kResume) job.fruitless_starts = 0;
        });
    // Its run may have changed the state since.
    if (absl::IsFailedPrecondition(changed.status())) continue;
    if (changed.ok()) Follow(*changed);
    return changed;
  }
}

void JobDispatcher::Impl::Follow(const Job& job) {
  const auto at = entries_.find(job.id);
  if (at == entries_.end()) return;
  if (at->second.where != Where::kRuns) {
    return Note(job.id, TakeUp(job, job.cause));
  }
  // What follows from it follows once the run has ended.
  JobControl& control = *at->second.control;
  if (job.state == JobState::kPausing) control.Stop(StopRequest::kPause);
  if (job.state == JobState::kCancelling) control.Stop(StopRequest::kCancel);
}

absl::Status JobDispatcher::Impl::Delete(
    absl::string_view id, const std::function<void()>& remove_files) {
  absl::MutexLock lock(&mutex_);
  const auto job = jobs_.Get(id);
  if (job.ok() && HasEnded(job->state)) {
    const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !Runs(id);
    };
    mutex_.Await(absl::Condition(&over));
  }
  if (Runs(id)) {
    return absl::FailedPreconditionError(
        absl::StrCat("jobs/", id, " runs and cannot be deleted: cancel it"));
  }
  RETURN_IF_ERROR(jobs_.Delete(id));
  if (entries_.contains(id)) Forget(std::string(id));
  remove_files();
  return absl::OkStatus();
}

// --- The queue ---

std::vector<std::string> JobDispatcher::Impl::WaitingInOrder() const {
  std::vector<std::string> ids;
  std::vector<QueuedJob> places;
  for (const auto& [id, entry] : entries_) {
    if (entry.where != Where::kWaits) continue;
    ids.push_back(id);
    places.push_back(entry.place);
  }
  std::vector<std::string> in_order;
  for (const size_t i : StartOrder(places, Shares())) {
    in_order.push_back(ids[i]);
  }
  return in_order;
}

OwnerShares JobDispatcher::Impl::Shares() const {
  const absl::Time now = absl::Now();
  OwnerShares shares;
  for (const auto& [id, entry] : entries_) {
    if (entry.where == Where::kIsPaused) continue;
    OwnerShare& share = shares[entry.place.owner];
    share.use = use_.Use(entry.place.owner, now);
    if (entry.where == Where::kRuns) ++share.running;
  }
  return shares;
}

absl::Status JobDispatcher::Impl::CheckRoom() const {
  const int64_t queued = CountOf(Where::kWaits) + CountOf(Where::kIsStuck);
  if (queued < options_.max_queued) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(queued, " jobs are queued, the most there can be"));
}

std::string JobDispatcher::Impl::Obstacle(const Entry& entry,
                                          int64_t ahead) const {
  if (entry.where == Where::kIsStuck) {
    return absl::StrCat("it cannot begin: ", entry.error.ToString());
  }
  return absl::StrCat(Count(CountOf(Where::kRuns), "runs", "run"),
                      ", the most there can be (--max_running_jobs); ",
                      Count(ahead, "is ahead", "are ahead"));
}

void JobDispatcher::Impl::Explain(absl::Span<Job> jobs) const {
  const bool any = std::any_of(jobs.begin(), jobs.end(), [](const Job& job) {
    return job.state == JobState::kQueued;
  });
  if (!any) return;
  absl::MutexLock lock(&mutex_);
  if (shut_down_) return;
  // With a place free, the wait is over as soon as it is looked at.
  const bool free = CountOf(Where::kRuns) < options_.max_running;
  std::map<std::string, int64_t> ahead;
  for (const std::string& id : WaitingInOrder()) {
    ahead.emplace(id, static_cast<int64_t>(ahead.size()));
  }
  for (Job& job : jobs) {
    const auto at = entries_.find(job.id);
    if (job.state != JobState::kQueued || at == entries_.end()) continue;
    const Where where = at->second.where;
    if (where != Where::kIsStuck && (where != Where::kWaits || free)) continue;
    absl::StrAppend(&job.cause, job.cause.empty() ? "" : "; ",
                    "waiting: ", Obstacle(at->second, ahead[job.id]));
  }
}

JobDispatcher::JobDispatcher(const Options& options, JobStore& jobs,
                             Execute execute)
    : impl_(std::make_unique<Impl>(options, jobs, std::move(execute))) {}
JobDispatcher::~JobDispatcher() = default;

absl::StatusOr<std::vector<absl::Status>> JobDispatcher::Start() {
  return impl_->Start();
}
absl::StatusOr<Job> JobDispatcher::Submit(const JobRequest& request) {
  return impl_->Submit(request);
}
absl::StatusOr<Job> JobDispatcher::Change(absl::string_view id,
                                          JobChange change) {
  return impl_->Change(id, change);
}
absl::Status JobDispatcher::Delete(absl::string_view id,
                                   const std::function<void()>& remove_files) {
  return impl_->Delete(id, remove_files);
}
void JobDispatcher::Explain(absl::Span<Job> jobs) const {
  impl_->Explain(jobs);
}
void JobDispatcher::Shutdown() { impl_->Shutdown(); }

}  // namespace recurve
