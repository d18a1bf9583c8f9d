// A trainer: a model in training on a group of devices. One Step is one batch:
// forward, loss and backward over its micro-batches, sum of gradients in the
// fixed tree, and, when accumulation is complete, clipping and the optimizer's
// update. The weights after any number of steps are a function of the initial
// weights, the configuration and the batches alone, bit for bit: not of the
// number of devices or threads.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/train/step_result.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

class Trainer {
 public:
  // InvalidArgument for an impossible configuration, a model without a loss, or
  // a parameter buffer of the wrong size. `pool` outlives the trainer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(
      DevicePool& pool, std::shared_ptr<const Model> model,
      std::vector<float> parameters, const v1::TrainerConfig& config);
  ~Trainer();

  // Blocks until done; calls are made one at a time (not from a device's
  // thread). continue_streams: sequence i goes on where sequence i of the
  // previous batch ended, as far as Model::BeginCall keeps its state.
  //
  // An error means that nothing has changed, and the call can be made again:
  // InvalidArgument for a batch that does not fit, or whose rows weigh nothing;
  // FailedPrecondition for continue_streams where there is nothing to continue
  // or the model is bidirectional, and for a loss or gradient that is not
  // finite, naming the sequences and the optimizer step; Cancelled if
  // `cancelled` became true before the last micro-batch; ResourceExhausted and
  // Internal as a device reports them. Only if a device fails within the update
  // is the trainer lost: that call and all after it return Internal, "the
  // trainer cannot go on".
  absl::StatusOr<StepResult> Step(const SequenceBatch& batch,
                                  const Targets& targets, bool continue_streams,
                                  const std::atomic<bool>* cancelled = nullptr);

  // The weights as they are, host memory, model().parameters() layout. Not
  // during a Step.
  absl::StatusOr<std::vector<float>> Parameters();

  int64_t step() const;  // optimizer steps done; from any thread, at any time
  const Model& model() const;
  const v1::TrainerConfig& config() const;  // with every default filled in

 private:
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_H_
