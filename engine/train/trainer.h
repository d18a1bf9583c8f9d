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
  // thread). InvalidArgument for a bad batch: nothing has changed then.
  // Cancelled if `cancelled` became true between micro-batches: nothing has
  // changed then. continue_streams: sequence i goes on where sequence i of the
  // previous batch ended (same number of sequences); FailedPrecondition for
  // bidirectional models.
  absl::StatusOr<StepResult> Step(const SequenceBatch& batch,
                                  const Targets& targets, bool continue_streams,
                                  const std::atomic<bool>* cancelled = nullptr);

  // The weights as they are, host memory, model().parameters() layout.
  absl::StatusOr<std::vector<float>> Parameters();

  int64_t step() const;
  const Model& model() const;
  const v1::TrainerConfig& config() const;

 private:
  class Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_H_
