// The owner of a job's loop: its reports go to the store, its states into the
// checkpoints of the job's folder.
#ifndef RECURVE_ENGINE_JOBS_JOB_OWNER_H_
#define RECURVE_ENGINE_JOBS_JOB_OWNER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/jobs/held_out.h"
#include "engine/jobs/job_control.h"
#include "engine/jobs/job_reporter.h"
#include "engine/jobs/training_loop.h"
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/training_run.h"

namespace recurve {

// DataLoss where the checkpoint's details are not a job's.
absl::StatusOr<LoopState> ToLoopState(Checkpoint checkpoint);

// As CheckpointFolder::LoadNewest, again and again while errors may pass: what
// cannot be read for now must not be trained anew.
absl::StatusOr<Checkpoint> LoadNewest(CheckpointFolder& checkpoints,
                                      JobReporter& reporter,
                                      std::vector<std::string>* warnings);

class JobOwner final : public LoopOwner {
 public:
  // The model is the run's; its parameters are not looked at. All that is
  // passed in outlives the owner.
  struct Parts {
    const TrainingRun& run;
    const HeldOutEvaluator& evaluate;
    const HeldMemory* memory;  // for it, or null
    CheckpointFolder& checkpoints;
    int keep_last;
    JobReporter& reporter;
    JobControl& control;
    const TrainingLoop::Clock& clock;
  };
  explicit JobOwner(const Parts& parts) : parts_(parts) {}

  absl::Status Report(const JobMetrics& metrics,
                      const std::vector<DeviceTime>& devices) override;
  absl::StatusOr<JobEvaluation> Evaluate(
      std::vector<float>& parameters) override;
  absl::Status ReportEvaluation(const JobEvaluation& evaluation,
                                bool best) override;
  absl::Status Warn(absl::string_view text) override;
  absl::Status Save(LoopState& state) override;
  absl::StatusOr<LoopState> LoadLast() override;
  absl::StatusOr<int64_t> RollBackReports() override;

 private:
  const Parts parts_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_OWNER_H_
