// The loop of a training job: batch after batch until the spec's end, with
// reports, evaluations and checkpoints on the way. Interrupted at any place and
// gone on with from a state that it saved, on any devices, it ends with the
// same bits and has reported the same numbers.
#ifndef RECURVE_ENGINE_JOBS_TRAINING_LOOP_H_
#define RECURVE_ENGINE_JOBS_TRAINING_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/data/loader.h"
#include "engine/jobs/job.h"
#include "engine/jobs/job_progress.pb.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_state.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// All that decides how a run goes on.
struct LoopState {
  JobProgress progress;
  TrainerState trainer;
  std::vector<float> best_parameters;  // empty = none
};

// Where a loop's reports and states go. Every error ends the loop.
class LoopOwner {
 public:
  virtual ~LoopOwner() = default;

  // Metrics since the last report, and the totals of the devices.
  virtual absl::Status Report(const JobMetrics& metrics,
                              const std::vector<DeviceTime>& devices) = 0;
  // The loss of these weights on the validation data; `step` is left 0. They
  // are lent: afterwards they are what they were.
  virtual absl::StatusOr<JobEvaluation> Evaluate(
      std::vector<float>& parameters) = 0;
  virtual absl::Status ReportEvaluation(const JobEvaluation& evaluation,
                                        bool best) = 0;
  virtual absl::Status Warn(absl::string_view text) = 0;

  // A state that cannot be kept is no error: the one before stays the last.
  // Lent, too.
  virtual absl::Status Save(LoopState& state) = 0;
  virtual absl::StatusOr<LoopState> LoadLast() = 0;
  // What has been reported is about to be reported again, from the last state
  // on. The number of the first event that counts.
  virtual absl::StatusOr<int64_t> RollBackReports() = 0;
};

class TrainingLoop {
 public:
  // Since some moment, steady.
  using Clock = std::function<absl::Duration()>;

  // All that is passed in outlives the loop. `max_batches` as in TrainingRun.
  // Begins with the trainer's weights.
  TrainingLoop(const v1::TrainSpec& spec, std::optional<int64_t> max_batches,
               Loader& loader, Trainer& trainer, LoopOwner& owner, Clock clock);

  // Before Run: goes on from there instead. Errors are Trainer::Load's.
  absl::Status Resume(LoopState state);

  // Errors are the owner's and Trainer::Step's: Cancelled at the next
  // micro-batch once `cancelled` is true; what has not been trained on whole
  // then has left no trace. FailedPrecondition that names layer, sequences and
  // step where a loss or gradient is not finite and the spec makes that an
  // error. Once.
  absl::Status Run(const std::atomic<bool>& cancelled);

  // After Run, or before it: the owner saves the state as it is.
  absl::Status Save();

  // What is known of the data goes into every state.
  JobProgress& progress() { return progress_; }
  // By validation loss; empty without validation.
  const std::vector<float>& best_parameters() const { return best_; }

  // Why it ended, for people.
  std::string EndReason() const;

 private:
  bool AtStepBoundary() const;
  bool OutOfTime() const;
  bool Done() const;
  double Seconds() const;

  // `done`: the run is at its end.
  absl::Status ReportIfDue(bool done);
  absl::Status EvaluateIfDue(bool done);
  absl::Status SaveIfDue(bool done);
  absl::Status TakeEvaluation(const JobEvaluation& evaluation,
                              std::vector<float> parameters);
  void CountSeconds();

  absl::Status Step(const std::atomic<bool>& cancelled);
  void Count(const Batch& batch, const StepResult& result);
  absl::Status AfterNotFinite(const absl::Status& error);
  absl::Status SkipStep(const absl::Status& error);
  absl::Status RollBack(const absl::Status& error);
  absl::Status ResumeAfterRollBack(LoopState last, double scale);
  absl::Status SeekBatch();

  JobMetrics Metrics() const;
  double FractionDone() const;

  const v1::TrainSpec& spec_;
  const int64_t accumulation_;
  const std::optional<int64_t> max_batches_;
  Loader& loader_;
  Trainer& trainer_;
  LoopOwner& owner_;
  const Clock clock_;

  JobProgress progress_;
  std::vector<float> best_;
  // progress_.seconds was right at this time.
  absl::Duration counted_;
  absl::Duration saved_;  // when a state was last saved by policy, or tried
  int64_t saved_step_ = 0;
  bool found_best_ = false;  // since then
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_TRAINING_LOOP_H_
