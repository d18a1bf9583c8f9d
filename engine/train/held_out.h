// Judging a model by data that it is not trained on.
#ifndef RECURVE_ENGINE_TRAIN_HELD_OUT_H_
#define RECURVE_ENGINE_TRAIN_HELD_OUT_H_

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "engine/train/job.h"
#include "engine/train/sequence_dataset.h"
#include "engine/train/training_run.h"

namespace recurve {

// The model's loss on all of `data`, and its accuracy where that is defined;
// `step` is left 0. A text is read as one sequence in chunks, with the state
// carried where the model has one. The same bits whatever the devices.
// Cancelled once `cancelled` is true.
using HeldOutEvaluator = std::function<absl::StatusOr<JobEvaluation>(
    const TrainableModel& model, const Dataset& data,
    const std::atomic<bool>& cancelled)>;

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_HELD_OUT_H_
