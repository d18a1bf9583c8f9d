// What a trainer's settings say about its memory, and what devices have.
#ifndef RECURVE_ENGINE_TRAIN_TRAINING_NEEDS_H_
#define RECURVE_ENGINE_TRAIN_TRAINING_NEEDS_H_

#include <vector>

#include "absl/types/span.h"
#include "engine/schedule/device.h"
#include "engine/schedule/training_fit.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// All but `call`. REQUIRES: `config` comes from ResolveTrainerConfig.
TrainingNeeds NeedsOfTrainer(const v1::TrainerConfig& config);

// As TrainingDevices of the pool's specs.
std::vector<int> TrainingDevices(DevicePool& pool);

// Of these devices of the pool, in that order.
std::vector<DeviceBudget> BudgetsOf(DevicePool& pool,
                                    absl::Span<const int> devices);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINING_NEEDS_H_
