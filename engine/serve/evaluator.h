// Mean loss and accuracy of a model version on given data.
#ifndef RECURVE_ENGINE_SERVE_EVALUATOR_H_
#define RECURVE_ENGINE_SERVE_EVALUATOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/dataset.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/held_memory.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/batch_runner.h"
#include "engine/serve/call_control.h"
#include "engine/serve/model_version.h"

namespace recurve {

struct Evaluation {
  double loss = 0;      // weighted mean; nats for cross-entropy
  double weight = 0;    // of the rows that count
  double accuracy = 0;  // share of weight whose class was right; else 0
  int64_t rows = 0;     // that went through the model
};

struct TextOptions {
  // Rows (tokens) of one call of the model; 0 = the whole text.
  int64_t chunk_rows = 0;
  // From call to call; else each starts from zeros.
  bool carry_state = false;
};

// Losses are computed in double from the model's float32 outputs and added in
// row order. Thread-safe; calls block, so none is made on a device's thread.
//
// Errors: InvalidArgument where data and model do not fit or no row counts;
// FailedPrecondition for a model without a loss, for carried state of a
// bidirectional one, and for a loss that is not finite.
class Evaluator {
 public:
  struct Options {
    int64_t max_rows = int64_t{1} << 26;
    // As BatchRun::memory: one call at a time then.
    const HeldMemory* memory = nullptr;
  };
  // `runner` outlives the evaluator.
  Evaluator(BatchRunner& runner, const Options& options)
      : runner_(runner), options_(options) {}

  // Without targets each token predicts the next; a sequence's last counts
  // nothing.
  absl::StatusOr<Evaluation> EvaluateBatch(const ModelHandle& version,
                                           const SequenceBatch& batch,
                                           const Targets* targets,
                                           const CallControl& control) const;
  // Each token predicts the next.
  absl::StatusOr<Evaluation> EvaluateText(const ModelHandle& version,
                                          absl::Span<const int32_t> tokens,
                                          const TextOptions& options,
                                          const CallControl& control) const;
  // `options` for text only: else InvalidArgument unless defaults.
  absl::StatusOr<Evaluation> EvaluateDataset(const ModelHandle& version,
                                             const Dataset& dataset,
                                             const TextOptions& options,
                                             const CallControl& control) const;

  // What EvaluateDataset could do with, most first.
  std::vector<MemoryPlan> PassMemories(const Model& model,
                                       const Dataset& dataset,
                                       const TextOptions& options) const;

 private:
  absl::Status Check(const Model& model, const SequenceBatch& batch,
                     const Targets& targets) const;
  absl::StatusOr<Evaluation> Evaluate(const ModelHandle& version,
                                      const SequenceBatch& batch,
                                      const Targets& targets, int64_t call_rows,
                                      const CallControl& control) const;

  BatchRunner& runner_;
  const Options options_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_EVALUATOR_H_
