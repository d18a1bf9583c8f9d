#include "engine/train/device_replica.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/finite.h"
#include "engine/model/not_finite_scan.h"
#include "engine/schedule/gradient_tree.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Adds the time from here to the end of the scope to `ms`.
auto AddTimeTo(double& ms) {
  return absl::MakeCleanup([&ms, start = absl::Now()] {
    ms += absl::ToDoubleMilliseconds(absl::Now() - start);
  });
}

// torch.nn.utils.clip_grad_norm_.
double ClippingFactor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace

std::vector<Range> TrainableRanges(const ParameterLayout& layout) {
  std::vector<Range> ranges;
  bool joins = false;  // the last parameter was trainable
  for (const Parameter& parameter : layout.parameters()) {
    const int64_t end = parameter.offset + parameter.count();
    if (parameter.trainable && joins) {
      ranges.back().end = end;
    } else if (parameter.trainable) {
      ranges.push_back({parameter.offset, end});
    }
    joins = parameter.trainable;
  }
  return ranges;
}

DeviceReplica::DeviceReplica(DeviceWorker& worker, Backend& backend,
                             std::shared_ptr<Ledger::Account> account, int rank,
                             int world_size, std::shared_ptr<const Model> model,
                             const OptimizerArgs& optimizer)
    : worker_(worker),
      backend_(backend, std::move(account)),
      rank_(rank),
      model_(std::move(model)),
      optimizer_(optimizer),
      trainable_(TrainableRanges(model_->parameters())),
      exchange_(backend_, model_->parameters().buffer_size(), rank,
                world_size) {}

absl::StatusOr<std::unique_ptr<DeviceReplica>> DeviceReplica::Create(
    DeviceWorker& worker, Backend& backend,
    std::shared_ptr<Ledger::Account> account, const TrainingShape& shape,
    std::shared_ptr<const Model> model, const OptimizerArgs& optimizer,
    const TrainerState& start) {
  std::unique_ptr<DeviceReplica> replica(
      new DeviceReplica(worker, backend, std::move(account), shape.rank,
                        shape.world_size, std::move(model), optimizer));
  RETURN_IF_ERROR(replica->Load(start));
  RETURN_IF_ERROR(replica->Reserve(shape));
  return replica;
}

absl::Status DeviceReplica::Reserve(const TrainingShape& shape) {
  while (static_cast<int64_t>(gradients_.size()) < shape.live_partials) {
    DeviceArray array;
    RETURN_IF_ERROR(array.Reserve(backend_, count()));
    gradients_.push_back(std::move(array));
  }
  RETURN_IF_ERROR(exchange_.Reserve(shape.exchange_pieces));
  if (shape.accumulates) {
    const int64_t size = exchange_.shard().size();
    RETURN_IF_ERROR(accumulated_.Reserve(backend_, size));
    RETURN_IF_ERROR(staged_.Reserve(backend_, size));
  }
  const BatchShape largest = shape.largest_micro_batch;
  if (largest.sequences == 0 || largest == reserved_) return absl::OkStatus();
  RETURN_IF_ERROR(executor_->ReserveArena(Executor::ArenaBytes(
      *model_, Mode::kTraining, largest.rows, largest.sequences)));
  reserved_ = largest;
  return absl::OkStatus();
}

// --- Forward, loss, backward ---

absl::Status DeviceReplica::Compute(const CallWork& work) {
  rows_ = 0;
  compute_ms_ = exchange_ms_ = update_ms_ = 0;
  partials_.clear();
  const Range mine = work.assignment[rank_];
  TreeFold fold(work.num_micro_batches());
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    if (i > mine.begin) worker_.ServeWaiting();
    RETURN_IF_ERROR(CheckNotCancelled(work));
    if (*work.not_finite) return absl::OkStatus();
    const auto timing = AddTimeTo(compute_ms_);
    partials_.push_back(gradients_[partials_.size()].data());
    RETURN_IF_ERROR(ComputeMicroBatch(work, i, partials_.back()));
    if (work.outcomes[i] == Outcome::kNotFinite) return absl::OkStatus();
    for (int n = fold.Push({i, i + 1}); n > 0; --n) {
      const float* top = partials_.back();
      partials_.pop_back();
      RETURN_IF_ERROR(backend_.Add(partials_.back(), top, count()));
    }
  }
  // Whatever fails on the device belongs to this call, and so does the time.
  const auto timing = AddTimeTo(compute_ms_);
  return backend_.Synchronize();
}

absl::Status DeviceReplica::ComputeMicroBatch(const CallWork& work,
                                              int64_t index, float* gradients) {
  const Range sequences = work.micro_batches[index];
  ASSIGN_OR_RETURN(const ForwardResult result, Forward(work, sequences));
  ASSIGN_OR_RETURN(const bool states_are_finite,
                   DownloadStates(sequences, result.state, work));
  BackwardArgs backward;
  backward.gradients = gradients;
  ASSIGN_OR_RETURN(const LossResult loss,
                   executor_->LossAndBackward(micro_batch_.targets, backward));
  work.losses[index] = loss;
  if (!states_are_finite || !std::isfinite(loss.loss)) {
    work.outcomes[index] = Outcome::kNotFinite;
    *work.not_finite = true;
    return absl::OkStatus();
  }
  work.outcomes[index] = Outcome::kFinite;
  rows_ += micro_batch_.batch.num_rows();
  worker_.AddRows(micro_batch_.batch.num_rows());
  return absl::OkStatus();
}

absl::StatusOr<ForwardResult> DeviceReplica::Forward(const CallWork& work,
                                                     Range sequences) {
  CutMicroBatch(*model_, *work.batch, *work.targets, sequences, micro_batch_);
  return executor_->Forward(
      TrainingForward(*model_, work, sequences, micro_batch_));
}

// Whether they are finite.
absl::StatusOr<bool> DeviceReplica::DownloadStates(Range sequences,
                                                   Matrix<float> state,
                                                   const CallWork& work) {
  if (work.states_after.empty()) return true;
  float* host = work.states_after.data() + sequences.begin * state.cols;
  RETURN_IF_ERROR(backend_.Download(host, state.data,
                                    state.rows * state.cols * kFloatBytes));
  return AllFinite({host, static_cast<size_t>(state.rows * state.cols)});
}

// --- Sum, update ---

absl::Status DeviceReplica::Finish(const CallWork& work,
                                   const UpdateWork* update,
                                   Communicator& communicator) {
  began_update_ = false;
  not_finite_in_sum_.reset();
  const absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(float* const shard_sum, SumOfCall(work, communicator));
    return update == nullptr
               ? Stage(shard_sum)
               : GatherAndUpdate(*update, shard_sum, communicator);
  }();
  if (!status.ok()) communicator.Abort(status);
  return status;
}

// This device's shard of the sum over the call and those before it.
absl::StatusOr<float*> DeviceReplica::SumOfCall(const CallWork& work,
                                                Communicator& communicator) {
  const auto timing = AddTimeTo(exchange_ms_);
  if (work.num_micro_batches() == 0) return accumulated_.data();
  ASSIGN_OR_RETURN(float* const sum,
                   exchange_.ReduceShard(communicator, work.num_micro_batches(),
                                         work.subtrees, partials_));
  if (work.accumulation > 0) {
    RETURN_IF_ERROR(
        backend_.Add(sum, accumulated_.data(), exchange_.shard().size()));
  }
  return sum;
}

absl::Status DeviceReplica::Stage(const float* shard_sum) {
  const auto timing = AddTimeTo(exchange_ms_);
  const int64_t size = exchange_.shard().size();
  ASSIGN_OR_RETURN(const double squares,
                   backend_.SumOfSquares(shard_sum, size));
  // No error, so that the other devices look at their shards too.
  if (!std::isfinite(squares)) {
    return FoundInSum(shard_sum, exchange_.shard());
  }
  RETURN_IF_ERROR(backend_.Copy(staged_.data(), shard_sum, size * kFloatBytes));
  return backend_.Synchronize();
}

// `sum` has the numbers of this range of the parameters.
absl::Status DeviceReplica::FoundInSum(const float* sum, Range range) {
  ASSIGN_OR_RETURN(
      const std::optional<int> place,
      ScanGradients(*model_, backend_, sum, range.begin, range.end));
  // Finite, but not once it is divided by its weight.
  not_finite_in_sum_ = place.value_or(Places(*model_).loss());
  return absl::OkStatus();
}

absl::Status DeviceReplica::GatherAndUpdate(const UpdateWork& update,
                                            const float* shard_sum,
                                            Communicator& communicator) {
  float* const sum = gradients_[0].data();
  {
    const auto timing = AddTimeTo(exchange_ms_);
    RETURN_IF_ERROR(exchange_.Gather(communicator, shard_sum, sum));
  }
  const auto timing = AddTimeTo(update_ms_);
  ASSIGN_OR_RETURN(const double squares, backend_.SumOfSquares(sum, count()));
  gradient_norm_ = std::sqrt(squares) / update.total_weight;
  OptimizerArgs args = optimizer_;
  args.gradient_scale = static_cast<float>(
      ClippingFactor(gradient_norm_, update.max_gradient_norm) /
      update.total_weight);
  args.learning_rate = static_cast<float>(update.learning_rate);
  args.step = update.number;
  if (!std::isfinite(gradient_norm_) || !std::isfinite(args.gradient_scale)) {
    RETURN_IF_ERROR(FoundInSum(sum, {0, count()}));
    return absl::FailedPreconditionError("the gradient is not finite");
  }
  // All devices have got here, or none goes on.
  RETURN_IF_ERROR(communicator.Barrier());
  began_update_ = true;
  return Update(args);
}

absl::Status DeviceReplica::Update(OptimizerArgs args) {
  const auto at = [](const DeviceArray& array, Range range) {
    return array.data() == nullptr ? nullptr : array.data() + range.begin;
  };
  for (const Range range : trainable_) {
    args.count = range.size();
    args.parameters = at(parameters_, range);
    args.gradients = at(gradients_[0], range);
    args.first_moment = at(first_moment_, range);
    args.second_moment = at(second_moment_, range);
    RETURN_IF_ERROR(backend_.Update(args));
  }
  return backend_.Synchronize();
}

}  // namespace recurve
