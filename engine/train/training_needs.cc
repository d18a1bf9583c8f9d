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

std::vector<int> TrainingDevices(DevicePool& pool) {
  std::vector<DeviceSpec> specs;
  for (int rank = 0; rank < pool.size(); ++rank) {
    specs.push_back(pool.device(rank).spec());
  }
  return TrainingDevices(specs);
}

std::vector<DeviceBudget> BudgetsOf(DevicePool& pool,
                                    absl::Span<const int> devices) {
  std::vector<DeviceBudget> budgets;
  for (const int device : devices) {
    const DeviceSpec& spec = pool.device(device).spec();
    budgets.push_back(
        {.name = pool.device(device).name(),
         .bytes = spec.memory_bytes,
         .workspace = WorkspacePlan(spec).total(),
         .serving_floor = pool.device(device).ledger().serving_floor_bytes()});
  }
  return budgets;
}

}  // namespace recurve
