// Judging a model by data that it is not trained on.
#ifndef RECURVE_ENGINE_JOBS_HELD_OUT_H_
#define RECURVE_ENGINE_JOBS_HELD_OUT_H_

#include <atomic>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/sequence_dataset.h"
#include "engine/jobs/job.h"
#include "engine/model/model.h"
#include "engine/schedule/held_memory.h"
#include "engine/schedule/memory_plan.h"
#include "engine/train/training_run.h"

namespace recurve {

// The model's loss on all of `data`, and its accuracy where that is defined;
// `step` is left 0. A text is read as one sequence in chunks, with the state
// carried where the model has one. The same bits whatever the devices.
// Needs no memory of a device but `memory`, which holds one of its plans; null
// where there are none. Cancelled once `cancelled` is true.
using HeldOutEvaluator = std::function<absl::StatusOr<JobEvaluation>(
    const TrainableModel& model, const Dataset& data, const HeldMemory* memory,
    const std::atomic<bool>& cancelled)>;

// What a device must hold for an evaluation: any of these, the most that is of
// use first; the same number whatever the data.
using HeldOutPlans =
    std::function<std::vector<MemoryPlan>(const Model& model, const Dataset&)>;

struct HeldOut {
  HeldOutEvaluator evaluate;
  HeldOutPlans plans;  // absent: it needs no memory of a device
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_HELD_OUT_H_
