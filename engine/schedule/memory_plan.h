// How many bytes a device must hold: a closed formula (DESIGN invariant 2;
// docs/memory.md writes it out). Pure functions of a model and of sizes: no
// device, no weights. Everything but packed weights is float32.
//
// What the plan says is what is allocated through Backend::Allocate, to the
// byte, and besides it the workspace that a device's threads keep for
// themselves.
#ifndef RECURVE_ENGINE_SCHEDULE_MEMORY_PLAN_H_
#define RECURVE_ENGINE_SCHEDULE_MEMORY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/partition.h"
#include "kernels/precision.h"

namespace recurve {

// Bytes by kind.
struct MemoryPlan {
  int64_t weights = 0;
  int64_t gradients = 0;    // partial sums, what is exchanged, what accumulates
  int64_t optimizer = 0;    // moments
  int64_t activations = 0;  // the arena of the largest pass
  int64_t workspace = 0;    // what threads keep for matrix products
  int64_t sessions = 0;     // recurrent states kept on the device

  int64_t total() const {
    return weights + gradients + optimizer + activations + workspace + sessions;
  }
};
MemoryPlan operator+(const MemoryPlan& a, const MemoryPlan& b);
bool operator==(const MemoryPlan& a, const MemoryPlan& b);

// Each kind in the order above with its name, `weights` to `sessions`.
struct MemoryTerm {
  const char* kind;
  int64_t bytes;
};
std::vector<MemoryTerm> Terms(const MemoryPlan& plan);
// The largest terms, those of 0 left out:
// "activations 1.9 GiB, optimizer 0.6 GiB, weights 0.3 GiB".
std::string LargestTerms(const MemoryPlan& plan, int count = 3);

// A packed batch, or micro-batch: N rows of B sequences.
struct BatchShape {
  int64_t rows = 0;
  int64_t sequences = 0;

  bool operator==(const BatchShape&) const = default;
};

// On a device of that kind: weights, on a CPU the projections among them once
// more, packed for its products at that precision, and the arena of passes no
// larger than `largest`; without rows and sequences weights alone. REQUIRES:
// the kind serves the precision (serving_precision.h).
MemoryPlan InferencePlan(const Model& model, BatchShape largest,
                         DeviceKind kind = DeviceKind::kCpu,
                         Precision precision = Precision::kFloat32);

// One device's part in training.
struct TrainingShape {
  BatchShape largest_micro_batch;  // of those that the device may get
  int num_moments = 0;             // NumMoments of the optimizer
  // More than one call may make a step: accumulation_steps > 1, or a client
  // says when a step ends.
  bool accumulates = false;
  int rank = 0;
  int world_size = 1;
  // Gradient buffers: LivePartials of the device's range, or MaxLivePartials.
  int64_t live_partials = 1;
  // Partial sums of all devices of which this one adds up a shard:
  // ExchangePieces, or MaxExchangePieces.
  int64_t exchange_pieces = 0;
};
MemoryPlan TrainingPlan(const Model& model, const TrainingShape& shape);

// Maximal subtrees of all ranges of an assignment (AssignMicroBatches) of that
// many micro-batches.
int64_t ExchangePieces(int64_t num_micro_batches,
                       absl::Span<const Range> assignment);
// No assignment to that many devices has more. 0 for one device.
int64_t MaxExchangePieces(int64_t num_micro_batches, int world_size);

// What a device keeps for itself, on the CPU each thread from its first product
// on, however many models it runs: one reservation a device.
MemoryPlan WorkspacePlan(const DeviceSpec& spec);
MemoryPlan WorkspacePlan(int num_threads);  // of a CPU device

// What training leaves of a device's budget for serving: `share`, 0 to
// kMaxServingMemoryShare, of what the workspace leaves; 0 where the budget is
// not limited (0).
inline constexpr double kMaxServingMemoryShare = 0.9;
int64_t ServingFloor(const DeviceSpec& spec, double share);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_MEMORY_PLAN_H_
