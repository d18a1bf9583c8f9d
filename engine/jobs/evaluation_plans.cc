#include "engine/jobs/evaluation_plans.h"

#include <cstddef>
#include <utility>

namespace recurve {

std::vector<MemoryPlan> EvaluationPlans(
    const HeldOutPlans& plans, const Model& model,
    const std::shared_ptr<const Dataset>& validation,
    const std::shared_ptr<const Dataset>& held_out) {
  std::vector<MemoryPlan> both;
  if (!plans) return both;
  for (const auto& data : {validation, held_out}) {
    if (data == nullptr) continue;
    auto more = plans(model, *data);
    for (size_t i = 0; i < both.size(); ++i) {
      if (both[i].total() > more[i].total()) more[i] = both[i];
    }
    both = std::move(more);
  }
  return both;
}

}  // namespace recurve
