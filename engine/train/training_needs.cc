#include "engine/train/training_needs.h"

#include "engine/train/trainer_config.h"

namespace recurve {

TrainingNeeds NeedsOfTrainer(const v1::TrainerConfig& config) {
  TrainingNeeds needs;
  needs.micro_batch_rows = config.micro_batch_rows();
  needs.num_moments = NumMoments(MakeOptimizerArgs(config.optimizer()));
  needs.accumulates = config.accumulation_steps() > 1;
  return needs;
}

std::vector<DeviceBudget> BudgetsOf(DevicePool& pool,
                                    absl::Span<const int> devices) {
  std::vector<DeviceBudget> budgets;
  for (const int device : devices) {
    const DeviceSpec& spec = pool.device(device).spec();
    budgets.push_back(
        {pool.device(device).name(), spec.memory_bytes, spec.threads});
  }
  return budgets;
}

}  // namespace recurve
