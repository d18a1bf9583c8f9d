// What goes into the next forward pass: a pure function of what waits. No
// clock, no thread.
#ifndef RECURVE_ENGINE_SERVE_BATCH_PLAN_H_
#define RECURVE_ENGINE_SERVE_BATCH_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace recurve {

struct BatchLimits {
  int64_t max_rows = 1024;
  int64_t max_sequences = 4096;
  // Of one sequence while another waits.
  int64_t max_chunk_rows = 256;
  // Where more flows wait than can have as much, some wait for the next pass
  // rather than all get less: a pass of many tiny chunks is slow for all.
  int64_t min_chunk_rows = 64;
  // How long a pass that is not full may wait for more.
  absl::Duration timeout = absl::ZeroDuration();
  // Sequences whole, and each at the cost of the longest.
  bool pad_to_longest = false;
};

struct WaitingSequence {
  int64_t rows = 0;     // that are left of it
  bool may_cut = true;  // in time
  int priority = 1;     // 1 goes first
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time arrival;
  uint64_t flow = 0;  // who it is for
};

// Rows of it that a pass may have while another waits.
int64_t MostRows(const WaitingSequence& sequence, const BatchLimits& limits);

// Inside a flow the lesser turn goes first: the earliest deadline, then who has
// the least left, of which no more counts than a pass may have, then who came
// first.
using TurnInFlow = std::tuple<absl::Time, int64_t, absl::Time>;
TurnInFlow TurnOf(const WaitingSequence& sequence, const BatchLimits& limits);

struct BatchPick {
  size_t index = 0;  // of the waiting
  int64_t rows = 0;  // from where it stands
};

struct BatchPlan {
  // In the order of `waiting`. Empty if none waits, or until `wait_until`.
  std::vector<BatchPick> picks;
  absl::Time wait_until = absl::InfiniteFuture();
};

// Priorities are strict. Inside one, the rows are shared max-min fairly among
// flows: who wants little has it whole, the others equal parts of what remains,
// a sequence at most max_chunk_rows. Inside a flow they have their turns. A
// sequence that cannot be cut is in one pass: one longer than max_rows is alone
// in it.
//
// Whoever came first of a priority is in the pass if any of that priority is,
// except where it cannot be cut and does not fit beside a higher one. The pass
// has no room left for any row of those not in it, but for max_chunk_rows.
BatchPlan PlanBatch(absl::Span<const WaitingSequence> waiting,
                    const BatchLimits& limits, absl::Time now);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCH_PLAN_H_
