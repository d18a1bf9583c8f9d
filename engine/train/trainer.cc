#include "engine/train/trainer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "engine/schedule/gradient_tree.h"
#include "engine/schedule/partition.h"
#include "engine/train/device_replica.h"
#include "engine/train/learning_rate.h"
#include "engine/train/micro_batch.h"
#include "engine/train/streams.h"
#include "engine/train/trainer_config.h"
#include "kernels/communicator.h"
#include "kernels/status.h"

namespace recurve {
namespace {

using RankTask = std::function<absl::Status(int rank, Backend&)>;

enum class GangKind { kIndependent, kCollective };

// Runs the task on every device and waits. Cancelled only if that is the worst
// that happened; otherwise the error of the first rank that has another one.
absl::Status RunGang(DevicePool& pool, GangKind kind, const RankTask& task) {
  std::vector<absl::Status> statuses(pool.size());
  absl::Notification done;
  const auto run = [&](int rank, Backend& backend) {
    statuses[rank] = task(rank, backend);
  };
  const auto notify = [&] { done.Notify(); };
  if (kind == GangKind::kCollective) {
    pool.EnqueueCollective(run, notify);
  } else {
    pool.EnqueueGang(run, notify);
  }
  done.WaitForNotification();
  absl::Status worst;
  for (const absl::Status& status : statuses) {
    if (worst.ok() || (absl::IsCancelled(worst) && !status.ok())) {
      worst = status;
    }
  }
  return worst;
}

}  // namespace

class Trainer::Impl {
 public:
  Impl(DevicePool& pool, std::shared_ptr<const Model> model,
       v1::TrainerConfig config)
      : pool_(pool), model_(std::move(model)), config_(std::move(config)) {}
  // Device memory is released on its device's thread.
  ~Impl() {
    (void)RunGang(pool_, GangKind::kIndependent, [this](int rank, Backend&) {
      if (!replicas_.empty()) replicas_[rank].reset();
      return absl::OkStatus();
    });
  }

  absl::Status CreateReplicas(absl::Span<const float> parameters);

  absl::StatusOr<StepResult> Step(const SequenceBatch& batch,
                                  const Targets& targets, bool continue_streams,
                                  const std::atomic<bool>* cancelled);
  absl::StatusOr<std::vector<float>> Parameters();

  int64_t step() const { return step_.load(); }
  const Model& model() const { return *model_; }
  const v1::TrainerConfig& config() const { return config_; }

 private:
  absl::Status CheckCall(const SequenceBatch& batch,
                         const Targets& targets) const;
  CallWork PlanCall(const SequenceBatch& batch, const Targets& targets) const;
  absl::Status Compute(const CallWork& work);
  absl::Status Finish(const CallWork& work, const UpdateWork* update);
  StepResult Describe(const CallWork& work, const UpdateWork* update) const;
  void Commit(bool updated, double weight, Streams streams);
  void ResetCommunicators() {
    communicators_ = CreateLocalCommunicators(pool_.size());
  }

  DevicePool& pool_;
  const std::shared_ptr<const Model> model_;
  const v1::TrainerConfig config_;
  std::vector<std::unique_ptr<DeviceReplica>> replicas_;  // one a device
  std::vector<std::unique_ptr<Communicator>> communicators_;

  // What a call changes once it has succeeded.
  std::atomic<int64_t> step_ = 0;  // optimizer steps done
  int32_t accumulated_calls_ = 0;  // of the step in progress
  double accumulated_weight_ = 0;
  Streams streams_;  // after the last call

  absl::Status broken_;  // why this trainer cannot go on
};

absl::Status Trainer::Impl::CreateReplicas(absl::Span<const float> parameters) {
  ResetCommunicators();
  replicas_.resize(pool_.size());
  const OptimizerArgs optimizer = MakeOptimizerArgs(config_.optimizer());
  return RunGang(
      pool_, GangKind::kIndependent,
      [&](int rank, Backend& backend) -> absl::Status {
        ASSIGN_OR_RETURN(
            replicas_[rank],
            DeviceReplica::Create(pool_.device(rank), backend, rank,
                                  pool_.size(), model_, parameters, optimizer));
        return absl::OkStatus();
      });
}

absl::StatusOr<StepResult> Trainer::Impl::Step(
    const SequenceBatch& batch, const Targets& targets, bool continue_streams,
    const std::atomic<bool>* cancelled) {
  RETURN_IF_ERROR(broken_);
  RETURN_IF_ERROR(CheckCall(batch, targets));
  ASSIGN_OR_RETURN(const Streams start,
                   StartStreams(*model_, batch, continue_streams, streams_));
  Streams after = StreamsAfter(*model_, batch, start);

  CallWork work = PlanCall(batch, targets);
  std::vector<LossResult> losses(work.num_micro_batches());
  work.cancelled = cancelled;
  work.states = start.states;
  work.positions = start.positions;
  work.states_after = absl::MakeSpan(after.states);
  work.losses = absl::MakeSpan(losses);
  RETURN_IF_ERROR(Compute(work));

  double weight = 0;
  for (const LossResult& loss : losses) weight += loss.weight;
  UpdateWork update;
  update.total_weight = accumulated_weight_ + weight;
  update.max_gradient_norm = config_.max_gradient_norm();
  update.learning_rate = LearningRate(config_.learning_rate(), work.step);
  const bool updates = accumulated_calls_ + 1 == config_.accumulation_steps();
  RETURN_IF_ERROR(Finish(work, updates ? &update : nullptr));

  Commit(updates, weight, std::move(after));
  return Describe(work, updates ? &update : nullptr);
}

absl::Status Trainer::Impl::CheckCall(const SequenceBatch& batch,
                                      const Targets& targets) const {
  RETURN_IF_ERROR(model_->CheckBatch(batch, /*allow_empty_sequences=*/true));
  RETURN_IF_ERROR(model_->CheckTargets(batch, targets));
  if (TotalWeight(*model_, batch, targets) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "targets: the total weight of the rows that count is 0");
}

CallWork Trainer::Impl::PlanCall(const SequenceBatch& batch,
                                 const Targets& targets) const {
  CallWork work;
  work.batch = &batch;
  work.targets = &targets;
  work.seed = config_.seed();
  work.step = step_ + 1;
  work.accumulation = accumulated_calls_;
  work.micro_batches =
      PartitionMicroBatches(batch.cu_seqlens, config_.micro_batch_rows());

  std::vector<int64_t> rows, speeds;
  for (const Range sequences : work.micro_batches) {
    rows.push_back(batch.cu_seqlens[sequences.end] -
                   batch.cu_seqlens[sequences.begin]);
  }
  for (int rank = 0; rank < pool_.size(); ++rank) {
    speeds.push_back(pool_.device(rank).spec().threads);
  }
  work.assignment = AssignMicroBatches(rows, speeds);
  for (const Range range : work.assignment) {
    work.subtrees.push_back(MaximalSubtrees(work.num_micro_batches(), range));
  }
  return work;
}

absl::Status Trainer::Impl::Compute(const CallWork& work) {
  return RunGang(pool_, GangKind::kIndependent, [&](int rank, Backend&) {
    return replicas_[rank]->Compute(work);
  });
}

absl::Status Trainer::Impl::Finish(const CallWork& work,
                                   const UpdateWork* update) {
  const absl::Status status =
      RunGang(pool_, GangKind::kCollective, [&](int rank, Backend&) {
        return replicas_[rank]->Finish(work, update, *communicators_[rank]);
      });
  if (status.ok()) return status;
  const bool weights_changed =
      std::any_of(replicas_.begin(), replicas_.end(),
                  [](const auto& replica) { return replica->began_update(); });
  if (weights_changed) {
    broken_ = absl::InternalError(
        absl::StrCat("the trainer cannot go on: updating the weights failed "
                     "in optimizer step ",
                     work.step, ": ", status.message()));
    return broken_;
  }
  ResetCommunicators();
  return status;
}

void Trainer::Impl::Commit(bool updated, double weight, Streams streams) {
  streams_ = std::move(streams);
  if (updated) {
    ++step_;
    accumulated_calls_ = 0;
    accumulated_weight_ = 0;
    return;
  }
  for (const auto& replica : replicas_) replica->Commit();
  ++accumulated_calls_;
  accumulated_weight_ += weight;
}

StepResult Trainer::Impl::Describe(const CallWork& work,
                                   const UpdateWork* update) const {
  StepResult result;
  result.step = step_;
  result.rows = work.batch->num_rows();
  double loss = 0;
  for (const LossResult& part : work.losses) {
    loss += part.loss;
    result.weight += part.weight;
  }
  result.loss = loss / result.weight;
  if (update != nullptr) {
    result.updated = true;
    result.gradient_norm = replicas_[0]->gradient_norm();
    result.learning_rate = update->learning_rate;
  }
  for (int rank = 0; rank < pool_.size(); ++rank) {
    const DeviceReplica& replica = *replicas_[rank];
    DeviceTime time;
    time.device = pool_.device(rank).name();
    time.micro_batches = work.assignment[rank].size();
    time.rows = replica.rows();
    time.compute_ms = replica.compute_ms();
    time.exchange_ms = replica.exchange_ms();
    time.update_ms = replica.update_ms();
    result.devices.push_back(std::move(time));
  }
  return result;
}

absl::StatusOr<std::vector<float>> Trainer::Impl::Parameters() {
  RETURN_IF_ERROR(broken_);
  std::vector<float> parameters(model_->parameters().buffer_size());
  absl::Status status;
  absl::Notification done;
  pool_.device(0).Enqueue(TaskClass::kTraining, [&](Backend&) {
    status = replicas_[0]->DownloadParameters(absl::MakeSpan(parameters));
    done.Notify();
  });
  done.WaitForNotification();
  RETURN_IF_ERROR(status);
  return parameters;
}

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    DevicePool& pool, std::shared_ptr<const Model> model,
    std::vector<float> parameters, const v1::TrainerConfig& config) {
  ASSIGN_OR_RETURN(v1::TrainerConfig resolved, ResolveTrainerConfig(config));
  if (model->config().loss().kind() == v1::Loss::KIND_UNSPECIFIED) {
    return absl::InvalidArgumentError("the model has no loss to train with");
  }
  if (static_cast<int64_t>(parameters.size()) !=
      model->parameters().buffer_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameters: ", parameters.size(), " numbers, the model has ",
        model->parameters().buffer_size()));
  }
  auto impl =
      std::make_unique<Impl>(pool, std::move(model), std::move(resolved));
  RETURN_IF_ERROR(impl->CreateReplicas(parameters));
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

absl::StatusOr<StepResult> Trainer::Step(const SequenceBatch& batch,
                                         const Targets& targets,
                                         bool continue_streams,
                                         const std::atomic<bool>* cancelled) {
  return impl_->Step(batch, targets, continue_streams, cancelled);
}
absl::StatusOr<std::vector<float>> Trainer::Parameters() {
  return impl_->Parameters();
}
int64_t Trainer::step() const { return impl_->step(); }
const Model& Trainer::model() const { return impl_->model(); }
const v1::TrainerConfig& Trainer::config() const { return impl_->config(); }

}  // namespace recurve
