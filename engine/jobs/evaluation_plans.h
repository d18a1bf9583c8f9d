// The memory that a job's evaluations ask for beside its training.
#ifndef RECURVE_ENGINE_JOBS_EVALUATION_PLANS_H_
#define RECURVE_ENGINE_JOBS_EVALUATION_PLANS_H_

#include <memory>
#include <vector>

#include "engine/data/sequence_dataset.h"
#include "engine/jobs/held_out.h"
#include "engine/model/model.h"
#include "engine/schedule/memory_plan.h"

namespace recurve {

// What does for the validation and the held-out data, one after the other: any
// of these. Either may be null; empty if nothing is evaluated or `plans` is
// absent.
std::vector<MemoryPlan> EvaluationPlans(
    const HeldOutPlans& plans, const Model& model,
    const std::shared_ptr<const Dataset>& validation,
    const std::shared_ptr<const Dataset>& held_out);

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_EVALUATION_PLANS_H_
