// What a TrainerConfig leaves open, and what it may say.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_CONFIG_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

inline constexpr int64_t kDefaultMicroBatchRows = 1024;
inline constexpr int64_t kMaxMicroBatchRows = int64_t{1} << 24;
inline constexpr int32_t kMaxAccumulationSteps = 1 << 20;

// The config with every unset field filled in, so that what is recorded says
// everything. InvalidArgument names the field, its value and what is allowed.
absl::StatusOr<v1::TrainerConfig> ResolveTrainerConfig(
    const v1::TrainerConfig& config);

// The optimizer's numbers as the backend takes them; pointers, count, gradient
// scale, learning rate and step are the caller's.
// REQUIRES: `config` comes from ResolveTrainerConfig.
OptimizerArgs MakeOptimizerArgs(const v1::OptimizerConfig& config);

// Buffers of the parameters' size that the optimizer keeps: 0, 1 (first moment)
// or 2 (both).
int NumMoments(const OptimizerArgs& optimizer);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_CONFIG_H_
