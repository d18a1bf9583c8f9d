// Judging a trained model by text that it has not seen.
#ifndef RECURVE_ENGINE_TRAIN_HELD_OUT_H_
#define RECURVE_ENGINE_TRAIN_HELD_OUT_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/train/training_run.h"

namespace recurve {

// Mean loss in nats of predicting each next token of `tokens`, read as one
// sequence in chunks with state carried. Cancelled once `cancelled` is true.
using HeldOutEvaluator = std::function<absl::StatusOr<double>(
    const TrainableModel& model, absl::Span<const int32_t> tokens,
    const std::atomic<bool>& cancelled)>;

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_HELD_OUT_H_
