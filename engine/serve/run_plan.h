// What a batch needs to run: how it is cut, how much memory that takes, and
// which devices could hold as much.
#ifndef RECURVE_ENGINE_SERVE_RUN_PLAN_H_
#define RECURVE_ENGINE_SERVE_RUN_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/schedule/held_memory.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/cut.h"
#include "engine/serve/model_version.h"
#include "kernels/precision.h"

namespace recurve {

struct RunLimits {
  // Rows in one forward pass, fewer where no device holds as many whatever is
  // trained; longer sequences are cut in time if the model allows it.
  int64_t max_batch_rows = 1024;
  // Activations of one pass on a device. Only what is not cut in time
  // (bidirectional models) comes near it.
  int64_t max_arena_bytes = int64_t{4} << 30;
};

struct RunPlan {
  std::vector<Chain> chains;
  int64_t max_rows = 0;    // of a pass, but for longer ones that are not cut
  MemoryPlan memory;       // on each device that takes part
  std::vector<int> ranks;  // that could hold as much
};

// What any of the devices that serve at the precision needs for any pass of at
// most `max_rows` rows, or of the longest sequence where that is more and the
// model takes it in one piece.
MemoryPlan PassMemory(DevicePool& devices, const Model& model,
                      Precision precision, absl::Span<const int64_t> cu_seqlens,
                      int64_t max_rows);

// PassMemory at float32 with ever fewer rows, halving max_batch_rows down to 1:
// what a run may be planned with.
std::vector<MemoryPlan> PassMemories(DevicePool& devices, const Model& model,
                                     absl::Span<const int64_t> cu_seqlens,
                                     const RunLimits& limits);

// On `held`, or, if that is null, on any of `devices`: with as many rows as
// some device keeps memory for beside training, even if each is a sequence of
// its own; if none keeps enough, as some device's whole budget holds.
// ResourceExhausted, with the numbers, if no pass can be small enough, and
// FailedPrecondition if no device serves at the version's precision.
// `call_rows` as in CutOptions.
absl::StatusOr<RunPlan> PlanRun(DevicePool& devices, const RunLimits& limits,
                                const ModelVersion& version,
                                absl::Span<const int64_t> cu_seqlens,
                                int64_t call_rows, const HeldMemory* held);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_RUN_PLAN_H_
