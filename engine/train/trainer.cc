#include "engine/train/trainer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/train/call_plan.h"
#include "engine/train/device_gang.h"
#include "engine/train/device_replica.h"
#include "engine/train/diagnosis.h"
#include "engine/train/micro_batch.h"
#include "engine/train/trainer_config.h"
#include "engine/train/trainer_memory.h"
#include "kernels/communicator.h"
#include "kernels/status.h"

namespace recurve {

class Trainer::Impl {
 public:
  Impl(TrainerMemory memory, std::shared_ptr<const Model> model,
       v1::TrainerConfig config)
      : memory_(std::move(memory)),
        group_(memory_.group()),
        model_(std::move(model)),
        config_(std::move(config)) {}
  // Device memory is released on its device's thread.
  ~Impl() {
    (void)RunGang(group_, GangKind::kIndependent, [this](int rank, Backend&) {
      if (!replicas_.empty()) replicas_[rank].reset();
      return absl::OkStatus();
    });
  }

  absl::Status CreateReplicas(std::vector<float> parameters);

  absl::StatusOr<StepResult> Step(const StepCall& call);
  void SkipStep();
  absl::StatusOr<TrainerState> Save();
  absl::Status Load(TrainerState state, bool weights_only);
  absl::StatusOr<std::vector<float>> Parameters();

  int64_t step() const { return step_.load(); }
  int32_t accumulated_calls() const { return accumulated_calls_.load(); }
  const Model& model() const { return *model_; }
  int num_devices() const { return group_.size(); }
  const HeldMemory* beside() const { return memory_.beside(); }
  const v1::TrainerConfig& config() const { return config_; }

 private:
  absl::Status CheckCall(const StepCall& call) const;
  absl::Status CheckLearningRate(const StepCall& call) const;
  absl::Status CheckBatch(const SequenceBatch& batch,
                          const Targets& targets) const;
  absl::StatusOr<StepResult> TryStep(const StepCall& call);
  absl::Status Compute(const CallWork& work);
  absl::Status Explain(const CallWork& work, NotFinitePart part);
  absl::Status Finish(const CallWork& work, const UpdateWork* update);
  StepResult Describe(const CallWork& work, const UpdateWork* update) const;
  void Commit(bool updated, double weight);
  void EndStep();
  void SetProgress(TrainerState state);
  int NumMoments() const {
    return recurve::NumMoments(MakeOptimizerArgs(config_.optimizer()));
  }
  absl::Status ConnectDevices();
  void Reconnect();

  TrainerMemory memory_;  // outlives what the replicas have allocated
  const DeviceGroup& group_;
  const std::shared_ptr<const Model> model_;
  const v1::TrainerConfig config_;
  std::vector<std::unique_ptr<DeviceReplica>> replicas_;  // one a device
  std::vector<std::unique_ptr<Communicator>> communicators_;

  // What a call changes once it has succeeded. Its buffers are empty: the
  // devices have them.
  TrainerState progress_;
  std::atomic<int64_t> step_ = 0;  // the same, for other threads
  std::atomic<int32_t> accumulated_calls_ = 0;

  std::vector<std::string> failed_streams_;  // of the last call, if not finite
  absl::Status broken_;                      // why this trainer cannot go on
};

absl::Status Trainer::Impl::ConnectDevices() {
  ASSIGN_OR_RETURN(communicators_, Connect(group_));
  return absl::OkStatus();
}

// After an error, which has ended the ranks' collectives for good.
void Trainer::Impl::Reconnect() {
  const absl::Status status = ConnectDevices();
  if (status.ok()) return;
  broken_ = absl::InternalError(
      absl::StrCat("the trainer cannot go on: connecting its devices failed: ",
                   status.message()));
}

absl::Status Trainer::Impl::CreateReplicas(std::vector<float> parameters) {
  RETURN_IF_ERROR(ConnectDevices());
  replicas_.resize(group_.size());
  const OptimizerArgs optimizer = MakeOptimizerArgs(config_.optimizer());
  TrainerState start;
  start.parameters = std::move(parameters);
  return RunGang(group_, GangKind::kIndependent,
                 [&](int rank, Backend& backend) -> absl::Status {
                   ASSIGN_OR_RETURN(
                       replicas_[rank],
                       DeviceReplica::Create(
                           group_.device(rank), backend,
                           memory_.reservation(rank).account(),
                           memory_.shape(rank), model_, optimizer, start));
                   return absl::OkStatus();
                 });
}

// --- Step ---

absl::StatusOr<StepResult> Trainer::Impl::Step(const StepCall& call) {
  absl::StatusOr<StepResult> result = TryStep(call);
  failed_streams_.clear();
  if (GetNotFinite(result.status())) {
    failed_streams_.assign(call.stream_ids.begin(), call.stream_ids.end());
  }
  return result;
}

absl::StatusOr<StepResult> Trainer::Impl::TryStep(const StepCall& call) {
  RETURN_IF_ERROR(broken_);
  RETURN_IF_ERROR(CheckCall(call));
  const SequenceBatch none;
  const SequenceBatch& batch = call.batch == nullptr ? none : *call.batch;
  const StreamUse use = {call.continue_streams, call.stream_ids,
                         call.end_stream_ids};
  ASSIGN_OR_RETURN(CallStreams streams,
                   StartStreams(*model_, batch, use, progress_.streams));

  ASSIGN_OR_RETURN(CallWork work,
                   PlanCall(config_, progress_, call, batch, memory_));
  std::vector<LossResult> losses(work.num_micro_batches());
  std::vector<Outcome> outcomes(work.num_micro_batches());
  std::atomic<bool> not_finite = false;
  work.states = streams.states;
  work.positions = streams.positions;
  work.states_after = absl::MakeSpan(streams.states_after);
  work.losses = absl::MakeSpan(losses);
  work.outcomes = absl::MakeSpan(outcomes);
  work.not_finite = &not_finite;
  RETURN_IF_ERROR(Compute(work));

  double weight = 0;
  for (const LossResult& loss : losses) weight += loss.weight;
  const UpdateWork update = PlanUpdate(config_, progress_, call,
                                       progress_.accumulated_weight + weight);
  const bool updates = Updates(config_, progress_, call.action);
  RETURN_IF_ERROR(Finish(work, updates ? &update : nullptr));

  AdvanceStreams(batch, use, streams, progress_.streams);
  Commit(updates, weight);
  return Describe(work, updates ? &update : nullptr);
}

absl::Status Trainer::Impl::CheckLearningRate(const StepCall& call) const {
  if (!call.learning_rate) return absl::OkStatus();
  constexpr float kMax = std::numeric_limits<float>::max();  // as devices count
  if (*call.learning_rate >= 0 && *call.learning_rate <= kMax) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("learning_rate: is ", *call.learning_rate,
                   ", must be 0 or more, and at most ", kMax));
}

absl::Status Trainer::Impl::CheckCall(const StepCall& call) const {
  RETURN_IF_ERROR(CheckLearningRate(call));
  if (call.action != StepAction::kOptimizerStep) {
    if (progress_.accumulated_calls >= kMaxAccumulationSteps) {
      return absl::FailedPreconditionError(
          absl::StrCat(progress_.accumulated_calls,
                       " calls have accumulated, as many as there may be; an "
                       "OPTIMIZER_STEP must come first"));
    }
    return CheckBatch(*call.batch, *call.targets);
  }
  if (call.batch != nullptr || call.targets != nullptr ||
      call.continue_streams || !call.stream_ids.empty()) {
    return absl::InvalidArgumentError(
        "action: an OPTIMIZER_STEP takes no batch, no targets and no streams");
  }
  if (progress_.accumulated_calls > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "action: OPTIMIZER_STEP, but no call has accumulated a gradient since "
      "the last optimizer step");
}

absl::Status Trainer::Impl::CheckBatch(const SequenceBatch& batch,
                                       const Targets& targets) const {
  RETURN_IF_ERROR(model_->CheckBatch(batch, /*allow_empty_sequences=*/true));
  RETURN_IF_ERROR(model_->CheckTargets(batch, targets));
  if (TotalWeight(*model_, batch, targets) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "targets: the total weight of the rows that count is 0");
}

absl::Status Trainer::Impl::Compute(const CallWork& work) {
  RETURN_IF_ERROR(RunGang(
      group_, GangKind::kIndependent, [&](int rank, Backend&) -> absl::Status {
        RETURN_IF_ERROR(replicas_[rank]->Reserve(memory_.shape(rank)));
        return replicas_[rank]->Compute(work);
      }));
  return *work.not_finite ? Explain(work, NotFinitePart::kForward)
                          : absl::OkStatus();
}

absl::Status Trainer::Impl::Explain(const CallWork& work, NotFinitePart part) {
  ASSIGN_OR_RETURN(const NotFinite where,
                   Diagnose(group_, *model_, replicas_, work, part));
  return NotFiniteError(where);
}

absl::Status Trainer::Impl::Finish(const CallWork& work,
                                   const UpdateWork* update) {
  const absl::Status status =
      RunGang(group_, GangKind::kCollective, [&](int rank, Backend&) {
        return replicas_[rank]->Finish(work, update, *communicators_[rank]);
      });
  const auto any = [&](const auto& is_so) {
    return std::any_of(replicas_.begin(), replicas_.end(), is_so);
  };
  if (any([](const auto& r) { return r->not_finite_in_sum().has_value(); })) {
    Reconnect();
    return Explain(work, NotFinitePart::kGradient);
  }
  if (status.ok()) return status;
  if (any([](const auto& r) { return r->began_update(); })) {
    broken_ = absl::InternalError(
        absl::StrCat("the trainer cannot go on: updating the weights failed "
                     "in optimizer step ",
                     work.step, ": ", status.message()));
    return broken_;
  }
  Reconnect();
  return status;
}

void Trainer::Impl::Commit(bool updated, double weight) {
  if (updated) return EndStep();
  for (const auto& replica : replicas_) replica->Commit();
  accumulated_calls_ = ++progress_.accumulated_calls;
  progress_.accumulated_weight += weight;
}

void Trainer::Impl::EndStep() {
  progress_.accumulated_calls = 0;
  progress_.accumulated_weight = 0;
  ++progress_.step;
  accumulated_calls_ = 0;
  step_ = progress_.step;
}

StepResult Trainer::Impl::Describe(const CallWork& work,
                                   const UpdateWork* update) const {
  StepResult result;
  result.step = progress_.step;
  result.accumulated_calls = progress_.accumulated_calls;
  result.rows = work.batch->num_rows();
  double loss = 0;
  for (const LossResult& part : work.losses) {
    loss += part.loss;
    result.weight += part.weight;
  }
  if (result.weight > 0) result.loss = loss / result.weight;
  if (update != nullptr) {
    result.updated = true;
    result.gradient_norm = replicas_[0]->gradient_norm();
    result.learning_rate = update->learning_rate;
  }
  for (int rank = 0; rank < group_.size(); ++rank) {
    const DeviceReplica& replica = *replicas_[rank];
    DeviceTime time;
    time.device = group_.device(rank).name();
    time.micro_batches = work.assignment[rank].size();
    time.rows = replica.rows();
    time.compute_ms = replica.compute_ms();
    time.exchange_ms = replica.exchange_ms();
    time.update_ms = replica.update_ms();
    result.devices.push_back(std::move(time));
  }
  return result;
}

void Trainer::Impl::SkipStep() {
  EndStep();
  ++progress_.skipped_steps;
  progress_.streams.last.clear();
  for (const std::string& name : failed_streams_) {
    progress_.streams.named.erase(name);
  }
  failed_streams_.clear();
}

// --- State ---

absl::StatusOr<TrainerState> Trainer::Impl::Save() {
  RETURN_IF_ERROR(broken_);
  TrainerState state = progress_;
  const int64_t size = model_->parameters().buffer_size();
  state.parameters.resize(size);
  if (NumMoments() >= 1) state.first_moment.resize(size);
  if (NumMoments() >= 2) state.second_moment.resize(size);
  if (state.accumulated_calls > 0) state.accumulated_gradient.resize(size);
  RETURN_IF_ERROR(RunGang(
      group_, GangKind::kIndependent,
      [&](int rank, Backend&) { return replicas_[rank]->Save(state); }));
  return state;
}

absl::Status Trainer::Impl::Load(TrainerState state, bool weights_only) {
  if (weights_only) {
    RETURN_IF_ERROR(CheckParameters(*model_, state.parameters));
    TrainerState start;
    start.parameters = std::move(state.parameters);
    state = std::move(start);
  } else {
    RETURN_IF_ERROR(CheckTrainerState(*model_, NumMoments(), state));
  }
  if (state.accumulated_calls > 0) {
    RETURN_IF_ERROR(memory_.ReserveAccumulated());
  }
  const absl::Status status = RunGang(
      group_, GangKind::kIndependent, [&](int rank, Backend&) -> absl::Status {
        RETURN_IF_ERROR(replicas_[rank]->Load(state));
        return replicas_[rank]->Reserve(memory_.shape(rank));
      });
  if (!status.ok()) {
    broken_ = absl::InternalError(
        absl::StrCat("the trainer cannot go on: loading its state failed: ",
                     status.message()));
    return broken_;
  }
  SetProgress(std::move(state));
  broken_ = absl::OkStatus();
  Reconnect();
  return broken_;
}

void Trainer::Impl::SetProgress(TrainerState state) {
  progress_ = std::move(state);
  progress_.parameters = {};
  progress_.first_moment = {};
  progress_.second_moment = {};
  progress_.accumulated_gradient = {};
  step_ = progress_.step;
  accumulated_calls_ = progress_.accumulated_calls;
  failed_streams_.clear();
}

absl::StatusOr<std::vector<float>> Trainer::Impl::Parameters() {
  RETURN_IF_ERROR(broken_);
  std::vector<float> parameters(model_->parameters().buffer_size());
  RETURN_IF_ERROR(RunGang(
      group_, GangKind::kIndependent, [&](int rank, Backend&) -> absl::Status {
        if (rank != 0) return absl::OkStatus();
        return replicas_[0]->DownloadParameters(absl::MakeSpan(parameters));
      }));
  return parameters;
}

// --- Trainer ---

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    DevicePool& pool, std::shared_ptr<const Model> model,
    std::vector<float> parameters, const v1::TrainerConfig& config,
    const TrainerOptions& options) {
  ASSIGN_OR_RETURN(v1::TrainerConfig resolved, ResolveTrainerConfig(config));
  if (model->config().loss().kind() == v1::Loss::KIND_UNSPECIFIED) {
    return absl::InvalidArgumentError("the model has no loss to train with");
  }
  RETURN_IF_ERROR(CheckParameters(*model, parameters));
  ASSIGN_OR_RETURN(TrainerMemory memory,
                   TrainerMemory::Reserve(pool, model, resolved, options));
  auto impl = std::make_unique<Impl>(std::move(memory), std::move(model),
                                     std::move(resolved));
  RETURN_IF_ERROR(impl->CreateReplicas(std::move(parameters)));
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Trainer::~Trainer() = default;

absl::StatusOr<StepResult> Trainer::Step(const StepCall& call) {
  return impl_->Step(call);
}
void Trainer::SkipStep() { impl_->SkipStep(); }
absl::StatusOr<TrainerState> Trainer::Save() { return impl_->Save(); }
absl::Status Trainer::Load(TrainerState state, bool weights_only) {
  return impl_->Load(std::move(state), weights_only);
}
absl::StatusOr<std::vector<float>> Trainer::Parameters() {
  return impl_->Parameters();
}
int64_t Trainer::step() const { return impl_->step(); }
int32_t Trainer::accumulated_calls() const {
  return impl_->accumulated_calls();
}
const HeldMemory* Trainer::beside() const { return impl_->beside(); }
int Trainer::num_devices() const { return impl_->num_devices(); }
const Model& Trainer::model() const { return impl_->model(); }
const v1::TrainerConfig& Trainer::config() const { return impl_->config(); }

}  // namespace recurve
