#include "engine/jobs/training_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/jobs/evaluation_record.h"
#include "engine/train/device_time_record.h"
#include "engine/train/train_spec.h"
#include "kernels/status.h"

namespace recurve {
namespace {

void Add(const DeviceTime& time, JobProgress* progress) {
  auto& totals = *progress->mutable_devices();
  auto at = std::find_if(totals.begin(), totals.end(), [&](const auto& total) {
    return total.device() == time.device;
  });
  if (at == totals.end()) {
    totals.Add()->set_device(time.device);
    at = totals.end() - 1;
  }
  at->set_micro_batches(at->micro_batches() + time.micro_batches);
  at->set_rows(at->rows() + time.rows);
  at->set_compute_ms(at->compute_ms() + time.compute_ms);
  at->set_exchange_ms(at->exchange_ms() + time.exchange_ms);
  at->set_update_ms(at->update_ms() + time.update_ms);
}

std::vector<DeviceTime> Totals(const JobProgress& progress) {
  std::vector<DeviceTime> times;
  for (const records::DeviceTime& total : progress.devices()) {
    times.push_back(FromRecord(total));
  }
  return times;
}

}  // namespace

TrainingLoop::TrainingLoop(const v1::TrainSpec& spec,
                           std::optional<int64_t> max_batches, Loader& loader,
                           Trainer& trainer, LoopOwner& owner, Clock clock)
    : spec_(spec),
      accumulation_(AccumulationSteps(spec)),
      max_batches_(max_batches),
      loader_(loader),
      trainer_(trainer),
      owner_(owner),
      clock_(std::move(clock)),
      counted_(clock_()),
      saved_(counted_) {
  progress_.set_learning_rate_scale(1);
}

absl::Status TrainingLoop::Resume(LoopState state) {
  saved_step_ = state.trainer.step;
  RETURN_IF_ERROR(
      trainer_.Load(std::move(state.trainer), /*weights_only=*/false));
  progress_ = std::move(state.progress);
  counted_ = clock_();
  best_ = std::move(state.best_parameters);
  return SeekBatch();
}

absl::Status TrainingLoop::SeekBatch() {
  const int64_t epoch = loader_.batches_per_epoch();
  return loader_.Seek(
      {progress_.batches() / epoch, progress_.batches() % epoch});
}

bool TrainingLoop::AtStepBoundary() const {
  return progress_.batches() % accumulation_ == 0;
}

double TrainingLoop::Seconds() const {
  return progress_.seconds() + absl::ToDoubleSeconds(clock_() - counted_);
}

bool TrainingLoop::OutOfTime() const {
  return spec_.max_seconds() > 0 && Seconds() >= spec_.max_seconds();
}

bool TrainingLoop::Done() const {
  return progress_.batches() == max_batches_ || progress_.stopped_early() ||
         (AtStepBoundary() && OutOfTime());
}

absl::Status TrainingLoop::Run(const std::atomic<bool>& cancelled) {
  while (true) {
    const bool done = Done();
    if (AtStepBoundary()) {
      RETURN_IF_ERROR(ReportIfDue(done));
      RETURN_IF_ERROR(EvaluateIfDue(done));
    }
    RETURN_IF_ERROR(SaveIfDue(done));
    if (done) return absl::OkStatus();
    if (progress_.stopped_early()) continue;
    RETURN_IF_ERROR(Step(cancelled));
  }
}

std::string TrainingLoop::EndReason() const {
  const int64_t steps = progress_.batches() / accumulation_;
  std::string reason;
  if (progress_.stopped_early()) {
    reason = absl::StrCat("no better validation loss in ",
                          progress_.evaluations_without_improvement(),
                          " evaluations than ", progress_.best().loss(),
                          " of step ", progress_.best().step(), ", ");
  } else if (progress_.batches() != max_batches_) {
    reason = "max_seconds reached, ";
  }
  return absl::StrCat(reason, steps, " steps done");
}

// --- Between steps ---

absl::Status TrainingLoop::ReportIfDue(bool done) {
  const int64_t step = trainer_.step();
  const bool due = done || step % ReportEverySteps(spec_) == 0;
  if (!due || step <= progress_.reported_step()) return absl::OkStatus();
  RETURN_IF_ERROR(owner_.Report(Metrics(), Totals(progress_)));
  progress_.set_reported_step(step);
  progress_.set_reported_seconds(Seconds());
  progress_.set_loss_sum(0);
  progress_.set_weight(0);
  progress_.set_rows(0);
  return absl::OkStatus();
}

JobMetrics TrainingLoop::Metrics() const {
  JobMetrics metrics;
  metrics.step = trainer_.step();
  metrics.epoch = progress_.epoch();
  metrics.loss =
      progress_.weight() > 0 ? progress_.loss_sum() / progress_.weight() : 0;
  metrics.gradient_norm = progress_.gradient_norm();
  metrics.learning_rate = progress_.learning_rate();
  metrics.seconds = Seconds();
  metrics.rows_per_second =
      static_cast<double>(progress_.rows()) /
      std::max(metrics.seconds - progress_.reported_seconds(), 1e-9);
  metrics.fraction_done = FractionDone();
  return metrics;
}

double TrainingLoop::FractionDone() const {
  if (progress_.stopped_early()) return 1;
  double fraction = 0;
  if (max_batches_) {
    fraction = static_cast<double>(progress_.batches()) /
               static_cast<double>(*max_batches_);
  }
  if (spec_.max_seconds() > 0) {
    fraction = std::max(fraction,
                        Seconds() / static_cast<double>(spec_.max_seconds()));
  }
  return std::min(fraction, 1.0);
}

absl::Status TrainingLoop::EvaluateIfDue(bool done) {
  const int64_t step = trainer_.step();
  const bool due = done || step % EvaluateEverySteps(spec_) == 0;
  if (!spec_.has_validation() || !due || step <= progress_.evaluated_step()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::vector<float> parameters, trainer_.Parameters());
  auto evaluation = owner_.Evaluate(parameters);
  if (!evaluation.ok()) {
    return absl::Status(evaluation.status().code(),
                        absl::StrCat("validation after step ", step, ": ",
                                     evaluation.status().message()));
  }
  evaluation->step = step;
  return TakeEvaluation(*evaluation, std::move(parameters));
}

absl::Status TrainingLoop::TakeEvaluation(const JobEvaluation& evaluation,
                                          std::vector<float> parameters) {
  const bool better =
      !progress_.has_best() ||
      evaluation.loss <
          progress_.best().loss() - spec_.validation().min_improvement();
  // The first of all is the best so far; then only what is lower at all.
  const bool best =
      !progress_.has_best() || evaluation.loss < progress_.best().loss();
  RETURN_IF_ERROR(owner_.ReportEvaluation(evaluation, best));
  progress_.set_evaluated_step(evaluation.step);
  if (best) {
    *progress_.mutable_best() = ToRecord(evaluation);
    best_ = std::move(parameters);
    found_best_ = true;
  }
  progress_.set_evaluations_without_improvement(
      better ? 0 : progress_.evaluations_without_improvement() + 1);
  const int32_t patience = spec_.validation().patience();
  progress_.set_stopped_early(
      patience > 0 && progress_.evaluations_without_improvement() >= patience);
  return absl::OkStatus();
}

// --- States ---

absl::Status TrainingLoop::Save() {
  CountSeconds();
  LoopState state;
  ASSIGN_OR_RETURN(state.trainer, trainer_.Save());
  state.progress = progress_;
  state.best_parameters = std::move(best_);  // lent: they may be large
  const absl::Status status = owner_.Save(state);
  best_ = std::move(state.best_parameters);
  saved_ = clock_();
  saved_step_ = trainer_.step();
  found_best_ = false;
  return status;
}

absl::Status TrainingLoop::SaveIfDue(bool done) {
  const int64_t step = trainer_.step();
  const int64_t every_steps = spec_.checkpoints().every_steps();
  const int64_t every_seconds = CheckpointEverySeconds(spec_);
  const bool by_steps = every_steps > 0 && step % every_steps == 0;
  const bool due =
      found_best_ || ((done || by_steps) && step > saved_step_) ||
      (every_seconds > 0 && clock_() - saved_ >= absl::Seconds(every_seconds));
  if (!due) return absl::OkStatus();
  if (step > progress_.roll_back_step()) progress_.set_roll_backs(0);
  return Save();
}

void TrainingLoop::CountSeconds() {
  progress_.set_seconds(Seconds());
  counted_ = clock_();
}

// --- One batch ---

absl::Status TrainingLoop::Step(const std::atomic<bool>& cancelled) {
  const Batch batch = loader_.Next();
  StepCall call;
  call.batch = &batch.sequences;
  call.targets = &batch.targets;
  call.continue_streams = batch.continue_streams && !progress_.streams_cut();
  call.cancelled = &cancelled;
  const auto result = trainer_.Step(call);
  if (result.ok()) {
    Count(batch, *result);
    return absl::OkStatus();
  }
  if (!GetNotFinite(result.status())) return result.status();
  return AfterNotFinite(absl::Status(
      result.status().code(),
      absl::StrCat(result.status().message(), " (epoch ", batch.epoch,
                   ", batch ",
                   progress_.batches() % loader_.batches_per_epoch(), ")")));
}

void TrainingLoop::Count(const Batch& batch, const StepResult& result) {
  progress_.set_batches(progress_.batches() + 1);
  progress_.set_streams_cut(false);
  progress_.set_epoch(batch.epoch);
  if (result.updated) {
    progress_.set_gradient_norm(result.gradient_norm);
    progress_.set_learning_rate(result.learning_rate);
  }
  progress_.set_loss_sum(progress_.loss_sum() + result.loss * result.weight);
  progress_.set_weight(progress_.weight() + result.weight);
  progress_.set_rows(progress_.rows() + result.rows);
  for (const DeviceTime& time : result.devices) Add(time, &progress_);
}

absl::Status TrainingLoop::AfterNotFinite(const absl::Status& error) {
  switch (spec_.non_finite()) {
    case v1::TrainSpec::SKIP_STEP:
      return SkipStep(error);
    case v1::TrainSpec::ROLL_BACK:
      return RollBack(error);
    default:
      return error;
  }
}

absl::Status TrainingLoop::SkipStep(const absl::Status& error) {
  RETURN_IF_ERROR(owner_.Warn(absl::StrCat("step ", trainer_.step() + 1,
                                           " is left out: ", error.message())));
  trainer_.SkipStep();
  const int64_t steps = progress_.batches() / accumulation_;
  progress_.set_batches((steps + 1) * accumulation_);
  progress_.set_streams_cut(true);
  return SeekBatch();
}

absl::Status TrainingLoop::RollBack(const absl::Status& error) {
  // What is halved without end becomes 0 one day.
  const double scale = progress_.learning_rate_scale() / 2;
  if (progress_.roll_backs() >= MaxRollBacks(spec_) || scale == 0) {
    return absl::Status(
        error.code(), absl::StrCat("after going back ", progress_.roll_backs(),
                                   " times: ", error.message()));
  }
  auto last = owner_.LoadLast();
  if (!last.ok()) {
    return absl::Status(error.code(),
                        absl::StrCat(error.message(),
                                     "; there is no checkpoint to go back to: ",
                                     last.status().message()));
  }
  const int64_t step = last->trainer.step;
  RETURN_IF_ERROR(
      owner_.Warn(absl::StrCat(error.message(), "; going back to step ", step,
                               ", with the learning rate times ", scale,
                               "; the steps after it are reported again")));
  last->trainer.learning_rate_scale = scale;
  RETURN_IF_ERROR(ResumeAfterRollBack(*std::move(last), scale));
  // At once: a crash must not undo the decision.
  return Save();
}

// What is about the run itself, not about its result, goes on counting.
absl::Status TrainingLoop::ResumeAfterRollBack(LoopState last, double scale) {
  CountSeconds();
  JobProgress& progress = last.progress;
  progress.set_reported_seconds(progress_.seconds() - progress.seconds() +
                                progress.reported_seconds());
  progress.set_seconds(progress_.seconds());
  *progress.mutable_devices() = progress_.devices();
  progress.set_learning_rate_scale(scale);
  progress.set_roll_backs(progress_.roll_backs() + 1);
  progress.set_roll_back_step(last.trainer.step);
  ASSIGN_OR_RETURN(const int64_t first_event, owner_.RollBackReports());
  progress.set_first_event(first_event);
  return Resume(std::move(last));
}

}  // namespace recurve
