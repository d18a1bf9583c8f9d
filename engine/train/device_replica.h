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
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "engine/model/places.h"
#include "engine/schedule/account_backend.h"
#include "engine/schedule/device.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/partition.h"
#include "engine/train/call_work.h"
#include "engine/train/device_array.h"
#include "engine/train/gradient_exchange.h"
#include "engine/train/micro_batch.h"
#include "engine/train/trainer_state.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace recurve {

// What of a call is not finite: losses and states, or gradients.
enum class NotFinitePart { kForward, kGradient };

class DeviceReplica {
 public:
  // All on the device's thread, as all methods but Commit and the accessors.
  // `worker` and its backend outlive the replica, which allocates what `shape`
  // says, its rank among others, and all of it through the account.
  static absl::StatusOr<std::unique_ptr<DeviceReplica>> Create(
      DeviceWorker& worker, Backend& backend,
      std::shared_ptr<Ledger::Account> account, const TrainingShape& shape,
      std::shared_ptr<const Model> model, const OptimizerArgs& optimizer,
      const TrainerState& start);

  // Makes room for what `shape` says, where there is less: afterwards calls
  // within it allocate nothing.
  absl::Status Reserve(const TrainingShape& shape);

  // Forward, loss and backward of this rank's micro-batches; leaves the sums
  // of its subtrees. Serves between micro-batches. Stops, without an error, at
  // the first loss or state that is not finite on any device: not_finite says
  // so.
  absl::Status Compute(const CallWork& work);

  // Sums the gradients of the call over all devices, adds them to those of the
  // earlier calls of the optimizer step and, given `update`, updates the
  // weights. A call without micro-batches leaves the earlier sum as it is.
  // Where their sum is not finite, not_finite_in_sum says so, with or without
  // an error, and nothing has changed. After any error the communicator is
  // aborted.
  absl::Status Finish(const CallWork& work, const UpdateWork* update,
                      Communicator& communicator);

  // After a call that was not finite: its sequences of this rank that are to
  // blame and where, ascending, no more micro-batches than it takes for
  // kMaxNotFiniteSequences. kForward looks at micro-batches that are not known
  // to be finite. What Compute and Finish have left is lost.
  absl::StatusOr<std::vector<NotFiniteSequence>> Diagnose(const CallWork& work,
                                                          NotFinitePart part);

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
  // The place, first in backward order, where the last Finish met a sum that is
  // not finite in what this device has of it.
  std::optional<int> not_finite_in_sum() const { return not_finite_in_sum_; }
  // Whether the last Finish began to change the weights.
  bool began_update() const { return began_update_; }

 private:
  DeviceReplica(DeviceWorker& worker, Backend& backend,
                std::shared_ptr<Ledger::Account> account, int rank,
                int world_size, std::shared_ptr<const Model> model,
                const OptimizerArgs& optimizer);

  absl::Status ComputeMicroBatch(const CallWork& work, int64_t index,
                                 float* gradients);
  absl::StatusOr<ForwardResult> Forward(const CallWork& work, Range sequences);
  absl::StatusOr<bool> DownloadStates(Range sequences, Matrix<float> state,
                                      const CallWork& work);
  absl::StatusOr<float*> SumOfCall(const CallWork& work,
                                   Communicator& communicator);
  absl::Status Stage(const float* shard_sum);
  absl::Status GatherAndUpdate(const UpdateWork& update, const float* shard_sum,
                               Communicator& communicator);
  absl::Status Update(OptimizerArgs args);
  absl::Status FoundInSum(const float* sum, Range range);

  absl::Status DiagnoseForward(const CallWork& work, Range sequences,
                               std::vector<NotFiniteSequence>& found);
  absl::Status DiagnoseGradient(const CallWork& work, Range sequences,
                                std::vector<NotFiniteSequence>& found);
  absl::StatusOr<std::optional<int>> FirstInGradient(const CallWork& work,
                                                     Range sequences);

  int64_t count() const { return model_->parameters().buffer_size(); }

  DeviceWorker& worker_;
  AccountBackend backend_;  // before all buffers
  const int rank_;
  const std::shared_ptr<const Model> model_;
  const OptimizerArgs optimizer_;
  // Parameters [begin, end) that the optimizer changes.
  const std::vector<Range> trainable_;

  DeviceArray parameters_;
  DeviceArray first_moment_;
  DeviceArray second_moment_;
  std::unique_ptr<Executor> executor_;
  BatchShape reserved_;  // what its arena was last made for
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
  std::optional<int> not_finite_in_sum_;
  bool began_update_ = false;
};

// Ranges of the buffer that hold trainable parameters alone, neighbours joined;
// padding between neighbours belongs to them.
std::vector<Range> TrainableRanges(const ParameterLayout& layout);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DEVICE_REPLICA_H_
