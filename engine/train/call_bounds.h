// How large the calls of a training run can get.
#ifndef RECURVE_ENGINE_TRAIN_CALL_BOUNDS_H_
#define RECURVE_ENGINE_TRAIN_CALL_BOUNDS_H_

#include "engine/data/sequence_dataset.h"
#include "engine/schedule/training_fit.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// What no batch exceeds that a BatchMaker makes of the dataset, in any epoch.
// Text: exact. Sequences: as if the longest came together.
// REQUIRES: BatchMaker::Create takes both.
CallBounds BoundsOfBatches(const Dataset& dataset,
                           const v1::LoaderConfig& config);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_CALL_BOUNDS_H_
