// From a call on a trainer to what its devices are asked to do.
#ifndef RECURVE_ENGINE_TRAIN_CALL_PLAN_H_
#define RECURVE_ENGINE_TRAIN_CALL_PLAN_H_

#include "absl/status/statusor.h"
#include "engine/train/call_work.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_memory.h"
#include "engine/train/trainer_state.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// Whether the call ends an optimizer step. `config` is resolved, `progress` is
// how far the trainer has come before the call; so also below.
bool Updates(const v1::TrainerConfig& config, const TrainerState& progress,
             StepAction action);

// Micro-batches and who computes them, within `memory`: its errors. Streams and
// places for results are the caller's to fill in. `batch` and the call's
// targets outlive the work; `batch` is empty for a call without one.
absl::StatusOr<CallWork> PlanCall(const v1::TrainerConfig& config,
                                  const TrainerState& progress,
                                  const StepCall& call,
                                  const SequenceBatch& batch,
                                  TrainerMemory& memory);

// The update that ends the step, whose rows weigh `total_weight` in all.
UpdateWork PlanUpdate(const v1::TrainerConfig& config,
                      const TrainerState& progress, const StepCall& call,
                      double total_weight);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_CALL_PLAN_H_
