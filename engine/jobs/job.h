// A training job as a record: its state, its numbers, its events.
#ifndef RECURVE_ENGINE_JOBS_JOB_H_
#define RECURVE_ENGINE_JOBS_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/train/step_result.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// The numbers are the wire's and the disk's.
enum class JobState {
  kQueued = 1,
  kValidating = 2,
  kRunning = 3,
  kPausing = 4,
  kPaused = 5,
  kCancelling = 6,
  kCancelled = 7,
  kSucceeded = 8,
  kFailed = 9,
};

// All states, for loops over them.
inline constexpr JobState kJobStates[] = {
    JobState::kQueued,    JobState::kValidating, JobState::kRunning,
    JobState::kPausing,   JobState::kPaused,     JobState::kCancelling,
    JobState::kCancelled, JobState::kSucceeded,  JobState::kFailed,
};

absl::string_view JobStateName(JobState state);
// Ended jobs never change again.
bool HasEnded(JobState state);
// The one table of transitions. A state is never its own successor.
bool MayFollow(JobState from, JobState to);
// What a job becomes that a server finds in `state` when it starts.
JobState AfterRestart(JobState state);

// What clients ask for.
enum class JobChange { kPause, kResume, kCancel };
// The state that the change leads to, `state` itself where there is nothing
// left to do. FailedPrecondition for a pause of what ends or has ended, and for
// a resume of what is neither paused nor pausing.
absl::StatusOr<JobState> AfterRequest(JobState state, JobChange change);

// A loss over data that is not trained on.
struct JobEvaluation {
  int64_t step = 0;
  double loss = 0;      // weighted mean
  double accuracy = 0;  // cross-entropy only
  double weight = 0;
};

// What a client submits.
struct JobRequest {
  v1::TrainSpec spec;
  std::string id;          // empty: chosen by the store
  std::string request_id;  // empty: none
  std::string owner;       // owners share the devices fairly
  int32_t priority = 0;    // higher ones run first
};

struct Job {
  std::string id;  // without "jobs/"
  v1::TrainSpec spec;
  std::string owner;
  int32_t priority = 0;
  JobState state = JobState::kQueued;
  std::string cause;  // why it is in that state, for people
  absl::Time create_time;
  std::optional<absl::Time> start_time;  // of VALIDATING
  std::optional<absl::Time> end_time;
  int32_t runs = 0;                   // how often it was started
  int32_t fruitless_starts = 0;       // see JobDispatcher
  int64_t step = 0;                   // of the last report
  int64_t max_steps = 0;              // 0 = not known
  double loss = 0;                    // of the last report
  int64_t checkpoint_step = 0;        // of the newest checkpoint; 0 = none
  std::optional<JobEvaluation> best;  // by validation loss
  std::optional<double> held_out_loss;
  std::string data_sha256;          // of the training data, once read
  std::string model_version;        // models/NAME/versions/N, once published
  std::vector<DeviceTime> devices;  // totals, in device order
};

struct JobMetrics {
  int64_t step = 0;
  int64_t epoch = 0;
  double loss = 0;  // weighted mean since the last report
  double gradient_norm = 0;
  double learning_rate = 0;
  double rows_per_second = 0;  // since the last report
  double seconds = 0;          // since the start
  double fraction_done = 0;    // 0 to 1
};

struct JobWarning {
  std::string text;
};

// A checkpoint that is on disk.
struct JobCheckpoint {
  int64_t step = 0;
  int64_t size_bytes = 0;
  double seconds = 0;  // that writing it took
};

struct JobEvent {
  int64_t number = 0;  // 0, 1, 2, ... of its job, without gaps
  absl::Time time;
  // Job: as it then was.
  std::variant<Job, JobMetrics, JobWarning, JobEvaluation, JobCheckpoint> what;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_H_
