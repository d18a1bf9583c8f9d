#include "engine/train/job_runner.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/train/job_control.h"
#include "engine/train/job_execution.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kCancelCause = "cancelled on request";
constexpr absl::string_view kShutdownCause = "server shut down";

}  // namespace

// Under mutex_, a job in queue_ is QUEUED and a job in running_ is VALIDATING
// or later: states change together with the lists.
class JobRunner::Impl {
 public:
  Impl(const Options& options, JobEnvironment environment)
      : options_(options), environment_(std::move(environment)) {
    for (int i = 0; i < options_.max_running; ++i) {
      threads_.emplace_back([this] { RunJobs(); });
    }
  }
  ~Impl() { Shutdown(); }

  absl::StatusOr<Job> Submit(const JobRequest& request);
  absl::StatusOr<Job> Cancel(absl::string_view job_id);
  void Shutdown();

 private:
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shut_down_ || !queue_.empty();
  }
  void RunJobs();
  // The next job, VALIDATING and in running_; none where it cannot be begun.
  absl::StatusOr<Job> Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> Stop(const std::string& id, absl::string_view cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const JobEnvironment environment_;
  absl::Mutex mutex_;
  std::deque<std::string> queue_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, JobControl> running_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Mutex join_mutex_;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(join_mutex_);
};

absl::StatusOr<Job> JobRunner::Impl::Submit(const JobRequest& request) {
  RETURN_IF_ERROR(CheckTrainSpec(request.spec));
  absl::MutexLock lock(&mutex_);
  if (shut_down_) return absl::UnavailableError("the server is shutting down");
  const bool full = static_cast<int>(queue_.size()) >= options_.max_queued;
  if (full && !environment_.jobs.FindRequest(request.request_id).ok()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(queue_.size(), " jobs are queued, the most there can be"));
  }
  bool created = false;
  ASSIGN_OR_RETURN(Job job, environment_.jobs.Create(request, &created));
  if (created) queue_.push_back(job.id);
  return job;
}

absl::StatusOr<Job> JobRunner::Impl::Cancel(absl::string_view job_id) {
  absl::MutexLock lock(&mutex_);
  return Stop(std::string(job_id), kCancelCause);
}

absl::StatusOr<Job> JobRunner::Impl::Stop(const std::string& id,
                                          absl::string_view cause) {
  const auto queued = std::find(queue_.begin(), queue_.end(), id);
  if (queued != queue_.end()) {
    queue_.erase(queued);
    return environment_.jobs.SetState(id, JobState::kCancelled, cause);
  }
  const auto running = running_.find(id);
  if (running != running_.end()) {
    const auto job =
        environment_.jobs.SetState(id, JobState::kCancelling, cause);
    // After the state: who sees the flag relies on that.
    if (job.ok()) running->second.Stop(StopRequest::kCancel);
    if (!absl::IsFailedPrecondition(job.status())) return job;
  }
  return environment_.jobs.Get(id);  // has ended, or is CANCELLING already
}

absl::StatusOr<Job> JobRunner::Impl::Begin() {
  const std::string id = std::move(queue_.front());
  queue_.pop_front();
  ASSIGN_OR_RETURN(Job job,
                   environment_.jobs.SetState(id, JobState::kValidating, ""));
  running_.try_emplace(id);
  return job;
}

void JobRunner::Impl::RunJobs() {
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(this, &Impl::HasWork));
    if (shut_down_) return;
    const auto job = Begin();
    if (!job.ok()) continue;
    JobControl& control = running_.find(job->id)->second;
    mutex_.Unlock();
    ExecuteJob(environment_, *job, control);
    mutex_.Lock();
    running_.erase(job->id);
  }
}

void JobRunner::Impl::Shutdown() {
  {
    absl::MutexLock lock(&mutex_);
    shut_down_ = true;
    while (!queue_.empty()) {
      const std::string id = queue_.front();
      Stop(id, kShutdownCause).status().IgnoreError();
    }
    for (const auto& [id, control] : running_) {
      Stop(id, kShutdownCause).status().IgnoreError();
    }
  }
  absl::MutexLock lock(&join_mutex_);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

JobRunner::JobRunner(const Options& options, DevicePool& devices,
                     JobStore& jobs, const DatasetStore& datasets,
                     ModelExchange& models, HeldOutEvaluator evaluate)
    : impl_(std::make_unique<Impl>(
          options,
          JobEnvironment{devices, jobs, datasets, models, std::move(evaluate),
                         options.max_parameters, options.directory})) {}
JobRunner::~JobRunner() = default;

absl::StatusOr<Job> JobRunner::Submit(const JobRequest& request) {
  return impl_->Submit(request);
}
absl::StatusOr<Job> JobRunner::Cancel(absl::string_view job_id) {
  return impl_->Cancel(job_id);
}
void JobRunner::Shutdown() { impl_->Shutdown(); }

}  // namespace recurve
