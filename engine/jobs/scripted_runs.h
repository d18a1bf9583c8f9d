// Runs of jobs that a test begins and ends as it likes.
#ifndef RECURVE_ENGINE_JOBS_SCRIPTED_RUNS_H_
#define RECURVE_ENGINE_JOBS_SCRIPTED_RUNS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/jobs/job.h"
#include "engine/jobs/job_control.h"
#include "engine/jobs/job_store.h"
#include "gtest/gtest.h"

namespace recurve {

// For what is sure to come, however slow the machine.
inline constexpr absl::Duration kPatience = absl::Minutes(4);

// Runs that go on until the test ends them. Thread-safe.
class ScriptedRuns {
 public:
  explicit ScriptedRuns(JobStore& jobs) : jobs_(jobs) {}

  void Execute(const Job& job, JobControl& control) {
    absl::MutexLock lock(&mutex_);
    started_.push_back(job.id);
    controls_[job.id] = &control;
    const auto ended = [this, &job]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return ends_.count(job.id) > 0;
    };
    mutex_.Await(absl::Condition(&ended));
    const std::function<void()> end = ends_[job.id];
    ends_.erase(job.id);
    controls_.erase(job.id);
    mutex_.Unlock();
    end();
    mutex_.Lock();
  }

  // Of all runs in the order of their beginnings, once there are so many.
  std::vector<std::string> Started(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return started_.size() >= count;
    };
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&enough), kPatience));
    return started_;
  }
  StopRequest RequestedOf(const std::string& id) {
    absl::MutexLock lock(&mutex_);
    return controls_.at(id)->requested();
  }
  void End(const std::string& id, std::function<void()> how) {
    absl::MutexLock lock(&mutex_);
    ends_[id] = std::move(how);
  }
  void Succeed(const std::string& id) {
    End(id, [this, id] { Set(id, JobState::kSucceeded); });
  }
  // As an execution does that is told to stop.
  void Stop(const std::string& id) {
    End(id, [this, id] { StopNow(id); });
  }
  void StopNow(const std::string& id) {
    absl::Status status;
    do {
      const Job job = *jobs_.Get(id);
      status = jobs_.SetState(id, AfterRestart(job.state), job.cause).status();
    } while (absl::IsFailedPrecondition(status));
  }
  void Set(const std::string& id, JobState state) {
    EXPECT_TRUE(jobs_.SetState(id, state, "").ok()) << id;
  }

 private:
  JobStore& jobs_;
  absl::Mutex mutex_;
  std::vector<std::string> started_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, JobControl*> controls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::function<void()>> ends_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_SCRIPTED_RUNS_H_
