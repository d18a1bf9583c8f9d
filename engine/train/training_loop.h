// The loop of a training job: batch after batch until the spec's end, with
// reports on the way.
#ifndef RECURVE_ENGINE_TRAIN_TRAINING_LOOP_H_
#define RECURVE_ENGINE_TRAIN_TRAINING_LOOP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/train/job.h"
#include "engine/train/loader.h"
#include "engine/train/trainer.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

class TrainingLoop {
 public:
  // Metrics since the last report, and the totals of the devices.
  using ReportFunction = std::function<absl::Status(
      const JobMetrics& metrics, const std::vector<DeviceTime>& devices)>;

  // All that is passed in outlives the loop. `max_batches` as in TrainingRun.
  TrainingLoop(const v1::TrainSpec& spec, std::optional<int64_t> max_batches,
               Loader& loader, Trainer& trainer, ReportFunction report);

  // Errors are Trainer::Step's: Cancelled at the next micro-batch once
  // `cancelled` is true, FailedPrecondition for a loss or a gradient that is
  // not finite. Once.
  absl::Status Run(const std::atomic<bool>& cancelled);

  // Why it ended, for people.
  std::string EndReason() const;

 private:
  using Clock = std::chrono::steady_clock;

  bool AtStepBoundary() const;
  bool OutOfTime() const;
  bool Done() const;
  absl::Status Step(const std::atomic<bool>& cancelled);
  void Count(const StepResult& result);
  double FractionDone() const;
  absl::Status Report();

  const v1::TrainSpec& spec_;
  const int64_t accumulation_;
  const int64_t report_every_;
  const std::optional<int64_t> max_batches_;
  Loader& loader_;
  Trainer& trainer_;
  const ReportFunction report_;

  const Clock::time_point start_ = Clock::now();
  int64_t batches_ = 0;
  std::vector<DeviceTime> devices_;

  // Since the last report.
  Clock::time_point reported_ = start_;
  int64_t reported_step_ = 0;
  JobMetrics metrics_;
  double loss_sum_ = 0;
  double weight_ = 0;
  int64_t rows_ = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINING_LOOP_H_
