// What can be said of a TrainSpec without its data.
#ifndef RECURVE_ENGINE_TRAIN_TRAIN_SPEC_H_
#define RECURVE_ENGINE_TRAIN_TRAIN_SPEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// Names, required fields, limits, the trainer's numbers, the model config where
// it leaves no size to the data. InvalidArgument names the field.
absl::Status CheckTrainSpec(const v1::TrainSpec& spec);

// The spec's settings with their defaults; of a spec that is good.
int64_t AccumulationSteps(const v1::TrainSpec& spec);
int64_t ReportEverySteps(const v1::TrainSpec& spec);
int64_t EvaluateEverySteps(const v1::TrainSpec& spec);
int KeepLastCheckpoints(const v1::TrainSpec& spec);
// 0: not by time.
int64_t CheckpointEverySeconds(const v1::TrainSpec& spec);
int MaxRollBacks(const v1::TrainSpec& spec);
v1::TrainSpec::Publish PublishedWeights(const v1::TrainSpec& spec);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAIN_SPEC_H_
