#include "engine/train/call_plan.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/schedule/gradient_tree.h"
#include "engine/schedule/partition.h"
#include "engine/train/learning_rate.h"
#include "kernels/status.h"

namespace recurve {
namespace {

std::vector<BatchShape> ShapesOf(const SequenceBatch& batch,
                                 absl::Span<const Range> micro_batches) {
  std::vector<BatchShape> shapes;
  for (const Range sequences : micro_batches) {
    shapes.push_back(
        {batch.cu_seqlens[sequences.end] - batch.cu_seqlens[sequences.begin],
         sequences.size()});
  }
  return shapes;
}

}  // namespace

bool Updates(const v1::TrainerConfig& config, const TrainerState& progress,
             StepAction action) {
  switch (action) {
    case StepAction::kStep:
      return progress.accumulated_calls + 1 >= config.accumulation_steps();
    case StepAction::kForwardBackward:
      return false;
    case StepAction::kOptimizerStep:
    case StepAction::kForwardBackwardOptimizerStep:
      return true;
  }
  return false;
}

absl::StatusOr<CallWork> PlanCall(const v1::TrainerConfig& config,
                                  const TrainerState& progress,
                                  const StepCall& call,
                                  const SequenceBatch& batch,
                                  TrainerMemory& memory) {
  CallWork work;
  work.batch = &batch;
  work.targets = call.targets;
  work.cancelled = call.cancelled;
  work.seed = config.seed();
  work.step = progress.step + 1;
  work.accumulation = progress.accumulated_calls;
  work.micro_batches =
      PartitionMicroBatches(batch.cu_seqlens, config.micro_batch_rows());
  const bool accumulates =
      progress.accumulated_calls > 0 || !Updates(config, progress, call.action);
  ASSIGN_OR_RETURN(
      work.assignment,
      memory.Assign(ShapesOf(batch, work.micro_batches), accumulates));
  for (const Range range : work.assignment) {
    work.subtrees.push_back(MaximalSubtrees(work.num_micro_batches(), range));
  }
  return work;
}

UpdateWork PlanUpdate(const v1::TrainerConfig& config,
                      const TrainerState& progress, const StepCall& call,
                      double total_weight) {
  const int64_t step = progress.step + 1;
  UpdateWork update;
  update.total_weight = total_weight;
  update.max_gradient_norm = config.max_gradient_norm();
  update.learning_rate =
      call.learning_rate.value_or(LearningRate(config.learning_rate(), step) *
                                  progress.learning_rate_scale);
  update.number = step - progress.skipped_steps;
  return update;
}

}  // namespace recurve
