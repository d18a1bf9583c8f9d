#include "engine/jobs/job_fit.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/jobs/evaluation_plans.h"
#include "engine/schedule/training_fit.h"
#include "engine/train/trainer_config.h"
#include "engine/train/training_needs.h"
#include "engine/train/training_sizes.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// 0 if that cannot be told without opening a file.
int64_t BytesOf(const v1::DataSource& source, const DatasetStore& datasets) {
  absl::string_view id = source.dataset();
  if (!absl::ConsumePrefix(&id, "datasets/")) return 0;
  const auto info = datasets.Get(id);
  return info.ok() ? info->size_bytes : 0;
}

bool IsSmall(const v1::DataSource& source, const DatasetStore& datasets) {
  const int64_t bytes = BytesOf(source, datasets);
  return bytes > 0 && bytes <= kMaxBytesReadToFit;
}

// All that SizesOfTrainingRun would read is small.
bool ReadsLittle(const v1::TrainSpec& spec, const DatasetStore& datasets) {
  return IsSmall(spec.data(), datasets) &&
         (!spec.format().npy().has_targets() ||
          IsSmall(spec.format().npy().targets(), datasets)) &&
         (!spec.validation().has_source() ||
          IsSmall(spec.validation().source(), datasets));
}

absl::Status CheckFits(const v1::TrainSpec& spec, const TrainingSizes& sizes,
                       const HeldOutPlans& evaluations, DevicePool& devices) {
  ASSIGN_OR_RETURN(const v1::TrainerConfig config,
                   ResolveTrainerConfig(spec.trainer()));
  TrainingNeeds needs = NeedsOfTrainer(config);
  needs.call = sizes.calls;
  const std::vector<DeviceBudget> budgets =
      BudgetsOf(devices, TrainingDevices(devices));
  const std::vector<MemoryPlan> beside = EvaluationPlans(
      evaluations, *sizes.model, sizes.validation, sizes.held_out);
  if (beside.empty()) {
    return FittingDevices(*sizes.model, needs, budgets).status();
  }
  return FittingDevicesBeside(*sizes.model, needs, budgets, beside).status();
}

}  // namespace

absl::Status CheckJobFits(const v1::TrainSpec& spec, DevicePool& devices,
                          const DatasetStore& datasets, ModelExchange& models,
                          const HeldOutPlans& evaluations,
                          int64_t max_parameters) {
  const bool exact = ReadsLittle(spec, datasets);
  const auto sizes =
      exact ? SizesOfTrainingRun(spec, datasets, models, max_parameters)
            : LeastSizes(spec, BytesOf(spec.data(), datasets), models);
  if (!sizes.ok()) return absl::OkStatus();
  const absl::Status fits = CheckFits(spec, *sizes, evaluations, devices);
  if (fits.ok() || exact) return fits;
  return {fits.code(),
          absl::StrCat(fits.message(),
                       ", by the size of the data alone; what is in them may "
                       "need more")};
}

}  // namespace recurve
