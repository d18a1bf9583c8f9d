#include "engine/serve/held_out_evaluation.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "engine/serve/evaluator.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Rows of a chunk where held-out text is evaluated.
constexpr int64_t kChunkRows = 1000;

absl::StatusOr<JobEvaluation> Evaluate(BatchRunner& runner,
                                       const TrainableModel& model,
                                       const Dataset& data,
                                       const HeldMemory* memory,
                                       const std::atomic<bool>& cancelled) {
  Evaluator::Options options;
  options.memory = memory;
  CallControl control;
  control.cancelled = {std::shared_ptr<void>(), &cancelled};  // not owned
  ASSIGN_OR_RETURN(
      const Evaluation evaluation,
      Evaluator(runner, options)
          .EvaluateDataset(
              ModelVersion::InMemory(model.model, model.parameters), data,
              HeldOutOptions(*model.model, data), control));
  JobEvaluation result;
  result.loss = evaluation.loss;
  result.accuracy = evaluation.accuracy;
  result.weight = evaluation.weight;
  return result;
}

}  // namespace

TextOptions HeldOutOptions(const Model& model, const Dataset& data) {
  TextOptions options;
  if (std::holds_alternative<TextDataset>(data)) {
    options.chunk_rows = kChunkRows;
    options.carry_state = !model.bidirectional();
  }
  return options;
}

HeldOut EvaluateHeldOut(BatchRunner& runner) {
  HeldOut held_out;
  held_out.evaluate = [&runner](const TrainableModel& model,
                                const Dataset& data, const HeldMemory* memory,
                                const std::atomic<bool>& cancelled) {
    return Evaluate(runner, model, data, memory, cancelled);
  };
  held_out.plans = [&runner](const Model& model, const Dataset& data) {
    return Evaluator(runner, Evaluator::Options())
        .PassMemories(model, data, HeldOutOptions(model, data));
  };
  return held_out;
}

}  // namespace recurve
