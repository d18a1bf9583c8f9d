// One device's copy of a model in training: weights, executor, gradients and
// optimizer state, and what the device does in a step.
//
// A call of Trainer::Step runs Compute on every device and then, if that went
// well everywhere, Finish. Neither changes the replica as far as the next call
// can see; Commit does, and so does an update within Finish.
#ifndef RECURVE_ENGINE_TRAIN_DEVICE_REPLICA_H_
#define RECURVE_ENGINE_TRAIN_DEVICE_REPLICA_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/schedule/partition.h"
#include "engine/train/call_work.h"
#include "engine/train/device_array.h"
#include "engine/train/gradient_exchange.h"
#include "engine/train/micro_batch.h"
#include "engine/train/trainer_state.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace recurve {

class DeviceReplica {
 public:
  // All on the device's thread, as all methods but Commit and the accessors.
  // `worker` and its backend outlive the replica.
  static absl::StatusOr<std::unique_ptr<DeviceReplica>> Create(
      DeviceWorker& worker, Backend& backend, int rank, int world_size,
      std::shared_ptr<const Model> model, const OptimizerArgs& optimizer,
      const TrainerState& start);

  // Forward, loss and backward of this rank's micro-batches; leaves the sums
  // of its subtrees. Serves between micro-batches. FailedPrecondition for a
  // loss that is not finite.
  absl::Status Compute(const CallWork& work);

  // Sums the gradients of the call over all devices, adds them to those of the
  // earlier calls of the optimizer step and, given `update`, updates the
  // weights. A call without micro-batches leaves the earlier sum as it is.
  // FailedPrecondition for gradients that are not finite. After any error the
  // communicator is aborted.
  absl::Status Finish(const CallWork& work, const UpdateWork* update,
                      Communicator& communicator);

  // After Finish without update, everywhere: its sum is now the accumulated
  // one. Any thread, while the device is not at work on this replica.
  void Commit() { std::swap(accumulated_, staged_); }

  absl::Status DownloadParameters(absl::Span<float> parameters);

  // Fills in this rank's part of the state, whose buffers have their sizes:
  // rank 0 the parameters and moments, each rank its shard of what has
  // accumulated.
  absl::Status Save(TrainerState& state);
  // Goes on from a state that has been checked; moments that are absent become
  // zero. After an error nothing is as it was.
  absl::Status Load(const TrainerState& state);

  // Of the last call.
  int64_t rows() const { return rows_; }
  double compute_ms() const { return compute_ms_; }
  double exchange_ms() const { return exchange_ms_; }
  double update_ms() const { return update_ms_; }
  // Of the mean gradient, before clipping.
  double gradient_norm() const { return gradient_norm_; }
  // Whether the last Finish began to change the weights.
  bool began_update() const { return began_update_; }

 private:
  DeviceReplica(DeviceWorker& worker, Backend& backend, int rank,
                int world_size, std::shared_ptr<const Model> model,
                const OptimizerArgs& optimizer);

  // Makes sure of gradient buffers 0 .. count - 1.
  absl::Status ReserveGradients(int64_t count);
  absl::Status ComputeMicroBatch(const CallWork& work, int64_t index,
                                 float* gradients);
  absl::Status DownloadStates(Range sequences, Matrix<float> state,
                              const CallWork& work);
  absl::StatusOr<float*> SumOfCall(const CallWork& work,
                                   Communicator& communicator);
  absl::Status Stage(const CallWork& work, const float* shard_sum);
  absl::Status GatherAndUpdate(const CallWork& work, const UpdateWork& update,
                               const float* shard_sum,
                               Communicator& communicator);
  absl::Status Update(OptimizerArgs args);

  int64_t count() const { return model_->parameters().buffer_size(); }

  DeviceWorker& worker_;
  Backend& backend_;
  const int rank_;
  const std::shared_ptr<const Model> model_;
  const OptimizerArgs optimizer_;
  // Parameters [begin, end) that the optimizer changes.
  const std::vector<Range> trainable_;

  DeviceArray parameters_;
  DeviceArray first_moment_;
  DeviceArray second_moment_;
  std::unique_ptr<Executor> executor_;
  // Sums over subtrees during Compute; the first one holds the whole sum in the
  // end.
  std::vector<DeviceArray> gradients_;
  std::vector<float*> partials_;  // those of gradients_ in use
  GradientExchange exchange_;
  // Shards: the sum of the step's calls so far, and the same with this call.
  DeviceArray accumulated_;
  DeviceArray staged_;

  MicroBatch micro_batch_;
  int64_t rows_ = 0;
  double compute_ms_ = 0;
  double exchange_ms_ = 0;
  double update_ms_ = 0;
  double gradient_norm_ = 0;
  bool began_update_ = false;
};

// Ranges of the buffer that hold trainable parameters alone, neighbours joined;
// padding between neighbours belongs to them.
std::vector<Range> TrainableRanges(const ParameterLayout& layout);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DEVICE_REPLICA_H_
