// What one call of a trainer asks of its devices.
#ifndef RECURVE_ENGINE_TRAIN_CALL_WORK_H_
#define RECURVE_ENGINE_TRAIN_CALL_WORK_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/model/executor.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/partition.h"

namespace recurve {

// What has become of a micro-batch.
enum class Outcome : char {
  kNotDone,
  kFinite,     // loss and states are
  kNotFinite,  // loss or states are not
};

// Shared by all devices: read by them all, except for states_after, losses and
// outcomes, in which each fills in its own part.
struct CallWork {
  const SequenceBatch* batch = nullptr;
  const Targets* targets = nullptr;
  std::vector<Range> micro_batches;          // sequences of each
  std::vector<Range> assignment;             // micro-batches of each rank
  std::vector<std::vector<Range>> subtrees;  // maximal ones of each rank
  const std::atomic<bool>* cancelled = nullptr;

  uint64_t seed = 0;
  int64_t step = 0;                     // of the optimizer, from 1
  int32_t accumulation = 0;             // calls of that step before this one
  absl::Span<const float> states;       // [B, state_size]; empty = zeros
  absl::Span<const int64_t> positions;  // [B]; empty = 0
  absl::Span<float> states_after;       // [B, state_size]; empty = not wanted
  absl::Span<LossResult> losses;        // one a micro-batch
  absl::Span<Outcome> outcomes;         // one a micro-batch
  // Set by the first device to meet something that is not finite; all stop.
  std::atomic<bool>* not_finite = nullptr;

  // 0 where what has accumulated is all that the call is about.
  int64_t num_micro_batches() const {
    return static_cast<int64_t>(micro_batches.size());
  }
};

// What ends an optimizer step.
struct UpdateWork {
  double total_weight = 0;       // of all calls of the step
  double max_gradient_norm = 0;  // 0 = no clipping
  double learning_rate = 0;
  int64_t number = 0;  // of this update, from 1: skipped steps not counted
};

// Cancelled if the call has been.
inline absl::Status CheckNotCancelled(const CallWork& work) {
  if (work.cancelled == nullptr ||
      !work.cancelled->load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  return absl::CancelledError("the step was cancelled");
}

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_CALL_WORK_H_
