// Learning-rate schedules: what training_config.proto's LearningRateConfig
// means.
#ifndef RECURVE_ENGINE_TRAIN_LEARNING_RATE_H_
#define RECURVE_ENGINE_TRAIN_LEARNING_RATE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// InvalidArgument names the field, its value and what is allowed.
absl::Status CheckLearningRate(const v1::LearningRateConfig& config);

// The rate of optimizer step `step` = 1, 2, ... in double.
// REQUIRES: CheckLearningRate(config) is OK.
double LearningRate(const v1::LearningRateConfig& config, int64_t step);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_LEARNING_RATE_H_
