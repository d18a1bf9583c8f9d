#include "engine/train/training_loop.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int64_t kDefaultReportEvery = 10;

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

void Add(const DeviceTime& time, std::vector<DeviceTime>* totals) {
  auto at = std::find_if(
      totals->begin(), totals->end(),
      [&time](const DeviceTime& total) { return total.device == time.device; });
  if (at == totals->end()) {
    totals->push_back(time);
    return;
  }
  at->micro_batches += time.micro_batches;
  at->rows += time.rows;
  at->compute_ms += time.compute_ms;
  at->exchange_ms += time.exchange_ms;
  at->update_ms += time.update_ms;
}

}  // namespace

TrainingLoop::TrainingLoop(const v1::TrainSpec& spec,
                           std::optional<int64_t> max_batches, Loader& loader,
                           Trainer& trainer, ReportFunction report)
    : spec_(spec),
      accumulation_(std::max(1, spec.trainer().accumulation_steps())),
      report_every_(spec.report_every_steps() > 0 ? spec.report_every_steps()
                                                  : kDefaultReportEvery),
      max_batches_(max_batches),
      loader_(loader),
      trainer_(trainer),
      report_(std::move(report)) {}

bool TrainingLoop::AtStepBoundary() const {
  return batches_ % accumulation_ == 0;
}

bool TrainingLoop::OutOfTime() const {
  return spec_.max_seconds() > 0 &&
         Clock::now() - start_ >= std::chrono::seconds(spec_.max_seconds());
}

bool TrainingLoop::Done() const {
  return batches_ == max_batches_ || (AtStepBoundary() && OutOfTime());
}

absl::Status TrainingLoop::Run(const std::atomic<bool>& cancelled) {
  while (!Done()) {
    RETURN_IF_ERROR(Step(cancelled));
    if (AtStepBoundary() && metrics_.step % report_every_ == 0) {
      RETURN_IF_ERROR(Report());
    }
  }
  return metrics_.step > reported_step_ ? Report() : absl::OkStatus();
}

std::string TrainingLoop::EndReason() const {
  return absl::StrCat(batches_ == max_batches_ ? "" : "max_seconds reached, ",
                      batches_ / accumulation_, " steps done");
}

absl::Status TrainingLoop::Step(const std::atomic<bool>& cancelled) {
  const Batch batch = loader_.Next();
  StepCall call;
  call.batch = &batch.sequences;
  call.targets = &batch.targets;
  call.continue_streams = batch.continue_streams;
  call.cancelled = &cancelled;
  ASSIGN_OR_RETURN(const StepResult result, trainer_.Step(call));
  ++batches_;
  metrics_.epoch = batch.epoch;
  Count(result);
  return absl::OkStatus();
}

void TrainingLoop::Count(const StepResult& result) {
  metrics_.step = result.step;
  if (result.updated) {
    metrics_.gradient_norm = result.gradient_norm;
    metrics_.learning_rate = result.learning_rate;
  }
  loss_sum_ += result.loss * result.weight;
  weight_ += result.weight;
  rows_ += result.rows;
  for (const DeviceTime& time : result.devices) Add(time, &devices_);
}

double TrainingLoop::FractionDone() const {
  double fraction = 0;
  if (max_batches_) fraction = static_cast<double>(batches_) / *max_batches_;
  if (spec_.max_seconds() > 0) {
    fraction = std::max(fraction, metrics_.seconds / spec_.max_seconds());
  }
  return std::min(fraction, 1.0);
}

absl::Status TrainingLoop::Report() {
  const Clock::time_point now = Clock::now();
  metrics_.loss = weight_ > 0 ? loss_sum_ / weight_ : 0;
  metrics_.seconds = Seconds(now - start_);
  metrics_.rows_per_second = rows_ / std::max(Seconds(now - reported_), 1e-9);
  metrics_.fraction_done = FractionDone();
  reported_ = now;
  reported_step_ = metrics_.step;
  loss_sum_ = weight_ = 0;
  rows_ = 0;
  return report_(metrics_, devices_);
}

}  // namespace recurve
