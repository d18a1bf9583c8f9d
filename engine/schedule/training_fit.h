// Whether a training run fits on devices, asked before it begins: from bounds
// on its batches alone.
#ifndef RECURVE_ENGINE_SCHEDULE_TRAINING_FIT_H_
#define RECURVE_ENGINE_SCHEDULE_TRAINING_FIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/schedule/memory_plan.h"

namespace recurve {

// What no call of a run exceeds. A call is one batch of the loader: for a text
// batch_size sequences of `unroll` rows; for sequences the batch_size longest.
struct CallBounds {
  int64_t rows = 0;
  int64_t sequences = 0;
  int64_t longest_sequence = 0;
  int64_t shortest_sequence = 0;  // no sequence has fewer rows
};

// Bounds on what PartitionMicroBatches makes of such a call, exact where all
// sequences are of one length.
BatchShape LargestMicroBatch(const CallBounds& call, int64_t micro_batch_rows);
int64_t MostMicroBatches(const CallBounds& call, int64_t micro_batch_rows);

struct TrainingNeeds {
  CallBounds call;
  int64_t micro_batch_rows = 0;  // resolved: not 0
  int num_moments = 0;           // NumMoments of the optimizer
  bool accumulates = false;      // accumulation_steps > 1
};

// What device `rank` must hold for any call of the run, however micro-batches
// are assigned.
TrainingShape LargestShape(const TrainingNeeds& needs, int rank,
                           int world_size);
MemoryPlan TrainingPlan(const Model& model, const TrainingNeeds& needs,
                        int rank, int world_size);

struct DeviceBudget {
  std::string name;           // for messages: devices/0
  int64_t bytes = 0;          // 0 = not limited
  int64_t workspace = 0;      // taken off: WorkspacePlan
  int64_t serving_floor = 0;  // and this: ServingFloor
};

// The devices, ascending, that can hold their part of the run and any of its
// micro-batches: those that it is to be trained on. Each one's plan is
// TrainingPlan with its place among them as rank.
//
// ResourceExhausted if there is none: what the roomiest device would have to
// hold, with its three largest terms, the budgets, and the largest value that
// fits: "... ; the largest trainer.micro_batch_rows that fits is 512", "... ;
// no trainer.micro_batch_rows fits; the longest sequence that fits has 300
// rows". Found by bisection over the plan.
absl::StatusOr<std::vector<int>> FittingDevices(
    const Model& model, const TrainingNeeds& needs,
    absl::Span<const DeviceBudget> devices);

// Where a run is trained, and where something else is held for it at the same
// time.
struct TrainingPlace {
  std::vector<int> members;  // as FittingDevices
  int beside_device = 0;     // one of them or none of them
  MemoryPlan beside;         // there
};

// The same with room for one of the plans `beside`, the first of them that
// leaves training as many devices as it has alone, if any does. Not empty.
absl::StatusOr<TrainingPlace> FittingDevicesBeside(
    const Model& model, const TrainingNeeds& needs,
    absl::Span<const DeviceBudget> devices,
    absl::Span<const MemoryPlan> beside);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_TRAINING_FIT_H_
