// A trainer: a model in training on a group of devices. A call brings a batch:
// forward, loss and backward over its micro-batches, sum of gradients in the
// fixed tree; or it ends an optimizer step: clipping and the optimizer's
// update; or both. The weights after any number of steps are a function of the
// initial weights, the configuration and the calls alone, bit for bit: not of
// the number of devices or threads, nor of where the training was saved and
// loaded.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/device.h"
#include "engine/schedule/held_memory.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/training_fit.h"
#include "engine/train/not_finite.h"
#include "engine/train/step_result.h"
#include "engine/train/trainer_state.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

enum class StepAction {
  kStep,             // updates once accumulation_steps calls have accumulated
  kForwardBackward,  // accumulates alone
  kOptimizerStep,    // updates by what has accumulated; takes no batch
  kForwardBackwardOptimizerStep,  // updates in any case
};

// What it points to outlives the call.
struct StepCall {
  const SequenceBatch* batch = nullptr;  // absent for kOptimizerStep
  const Targets* targets = nullptr;      // the same
  StepAction action = StepAction::kStep;
  // Sequence i goes on where sequence i of the previous batch ended, as far as
  // Model::BeginCall keeps its state.
  bool continue_streams = false;
  // Instead: sequence i goes on where the stream of that name ended, from zeros
  // if there is none yet. [B], all different, or empty.
  absl::Span<const std::string> stream_ids;
  absl::Span<const std::string> end_stream_ids;  // forgotten after the call
  // Of this update, if the call updates: instead of the schedule's rate times
  // the state's learning_rate_scale.
  std::optional<double> learning_rate;
  // Cuts the call off between micro-batches.
  const std::atomic<bool>* cancelled = nullptr;
};

// How a trainer comes by the memory that it needs on its devices.
struct TrainerOptions {
  // In the devices' ledgers: jobs/x, trainers/y.
  std::string owner = "trainer";
  // What no call exceeds. Then everything is reserved at the start, and no call
  // is refused for want of memory; without it a trainer begins with little, and
  // takes what is missing call by call.
  std::optional<CallBounds> calls = std::nullopt;
  // Something else that the run needs a device's memory for: any of these, the
  // most that is of use first. One of them is reserved together with the
  // trainer's own, so that two runs never wait for each other. REQUIRES, unless
  // empty: calls and wait.
  std::vector<MemoryPlan> beside = {};
  // The trainer waits in line for its first reservations. Without it: refused
  // at once where others hold the memory.
  std::optional<Ledger::Wait> wait = std::nullopt;
};

class Trainer {
 public:
  // On the devices of `pool` whose budgets hold their part; the others are left
  // out, and so are those whose memory is held by others, unless it waits.
  // `pool` outlives the trainer.
  //
  // InvalidArgument for an impossible configuration, a model without a loss, or
  // a parameter buffer of the wrong size. ResourceExhausted, with the numbers,
  // if no device can hold it (FittingDevices) or all have refused; errors of
  // the wait as Ledger::ReserveAll has them.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      DevicePool& pool, std::shared_ptr<const Model> model,
      std::vector<float> parameters, const v1::TrainerConfig& config,
      const TrainerOptions& options = TrainerOptions());
  ~Trainer();

  // Step, Save and Load block until they are done; they are called one at a
  // time (not from a device's thread).
  //
  // An error of Step means that nothing has changed, and the call can be made
  // again: InvalidArgument for a batch that does not fit, or whose rows weigh
  // nothing, and for arguments that do not go together; FailedPrecondition for
  // kOptimizerStep where nothing has accumulated and for streams that cannot be
  // continued (StartStreams says more); FailedPrecondition with GetNotFinite
  // for a loss, state or gradient that is not finite on any device; Cancelled
  // if `cancelled` became true before the last micro-batch; ResourceExhausted,
  // with the numbers, where the call takes memory that is not there; Internal
  // as a device reports it. Only if a device fails within the
  // update is the trainer lost: that call and all after it return Internal,
  // "the trainer cannot go on", until a Load succeeds.
  absl::StatusOr<StepResult> Step(const StepCall& call);

  // Leaves out the optimizer step that is under way, after a call that was not
  // finite: drops what has accumulated; the step counts, but not in Adam's bias
  // correction; positional streams start anew, and so do the named ones of the
  // call that failed last.
  void SkipStep();

  // Bit for bit what this trainer would go on from; for any trainer of an equal
  // model and optimizer, on any devices.
  absl::StatusOr<TrainerState> Save();
  // Goes on from `state`; `weights_only`: from its parameters, all else starts
  // anew. InvalidArgument for a state that does not fit (CheckTrainerState),
  // ResourceExhausted as in Step: nothing has changed. After an error of a
  // device the trainer cannot go on, until a Load succeeds.
  absl::Status Load(TrainerState state, bool weights_only);

  // The weights as they are, host memory, model().parameters() layout.
  absl::StatusOr<std::vector<float>> Parameters();

  // From any thread, at any time.
  int64_t step() const;               // optimizer steps done
  int32_t accumulated_calls() const;  // since the last of them
  int num_devices() const;            // that it is on
  const Model& model() const;
  const v1::TrainerConfig& config() const;  // with every default filled in
  // As long as the trainer: for what TrainerOptions::beside said; else null.
  const HeldMemory* beside() const;

 private:
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_H_
