#include "engine/train/stored_trainer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status Prefixed(absl::string_view prefix, const absl::Status& status) {
  return {status.code(), absl::StrCat(prefix, ": ", status.message())};
}

}  // namespace

StoredTrainer::StoredTrainer(const TrainerContext& context,
                             const std::string& id, TrainerRecord record,
                             TrainerFolder folder)
    : context_(context),
      id_(id),
      origin_(std::make_shared<TrainerOrigin>(std::move(record.origin))),
      folder_(std::move(folder)),
      calls_(std::move(record.calls)),
      save_time_(context.now()),
      last_use_(save_time_) {
  info_.id = id;
  info_.origin = origin_;
  info_.accumulated_calls = saved_accumulated_calls_ = record.accumulated_calls;
  info_.last_number = info_.saved_number = calls_.last_number();
}

absl::StatusOr<std::shared_ptr<StoredTrainer>> StoredTrainer::Create(
    const TrainerContext& context, const std::string& id,
    const std::string& path, TrainerOrigin origin,
    std::vector<float> parameters) {
  ASSIGN_OR_RETURN(
      auto trainer,
      Trainer::Create(*context.devices, origin.model, std::move(parameters),
                      origin.config, {.owner = absl::StrCat("trainers/", id)}));
  TrainerRecord record;
  record.origin = std::move(origin);
  record.origin.config = trainer->config();
  record.save_time = context.now();
  ASSIGN_OR_RETURN(TrainerState state, trainer->Save());
  ASSIGN_OR_RETURN(
      TrainerFolder folder,
      TrainerFolder::Create(path, MakeCheckpoint(record, std::move(state))));
  std::shared_ptr<StoredTrainer> stored(
      new StoredTrainer(context, id, std::move(record), std::move(folder)));
  stored->trainer_ = std::move(trainer);
  stored->NoteSaved();
  return stored;
}

absl::StatusOr<std::shared_ptr<StoredTrainer>> StoredTrainer::Open(
    const TrainerContext& context, const std::string& id,
    const std::string& path) {
  ASSIGN_OR_RETURN(TrainerFolder folder, TrainerFolder::Open(path));
  ASSIGN_OR_RETURN(TrainerSummary summary, folder.Summarize());
  std::shared_ptr<StoredTrainer> stored(new StoredTrainer(
      context, id, std::move(summary.record), std::move(folder)));
  absl::MutexLock lock(&stored->mutex_);
  stored->info_.step = stored->info_.saved_step = summary.step;
  return stored;
}

TrainerInfo StoredTrainer::Describe() const {
  absl::MutexLock lock(&mutex_);
  return info_;
}

absl::Time StoredTrainer::last_use() const {
  absl::MutexLock lock(&mutex_);
  return last_use_;
}

// --- Turns ---

absl::Status StoredTrainer::BeginCall() {
  const auto no_upkeep = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return turn_ != Turn::kUpkeep || closed_;
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&no_upkeep));
  if (closed_) {
    return absl::NotFoundError(absl::StrCat("trainers/", id_, " was deleted"));
  }
  if (turn_ == Turn::kCall) {
    return absl::AbortedError(absl::StrCat(
        "another call on trainers/", id_,
        " is running; calls on one trainer are made one after another, and a "
        "numbered one can be made again until it is answered"));
  }
  turn_ = Turn::kCall;
  last_use_ = context_.now();
  return absl::OkStatus();
}

bool StoredTrainer::TryBeginUpkeep() {
  absl::MutexLock lock(&mutex_);
  if (turn_ != Turn::kNone || closed_) return false;
  turn_ = Turn::kUpkeep;
  return true;
}

absl::StatusOr<ModelHandle> StoredTrainer::BeginUpkeep(absl::Time deadline) {
  const auto done_waiting = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return turn_ == Turn::kNone || weights_ != nullptr || closed_;
  };
  absl::MutexLock lock(&mutex_);
  last_use_ = context_.now();
  weights_wanted_ = true;
  if (!mutex_.AwaitWithDeadline(absl::Condition(&done_waiting), deadline)) {
    return absl::DeadlineExceededError(absl::StrCat(
        "the deadline passed while another call on trainers/", id_, " ran"));
  }
  if (closed_) {
    return absl::NotFoundError(absl::StrCat("trainers/", id_, " was deleted"));
  }
  if (weights_ != nullptr) return weights_;
  turn_ = Turn::kUpkeep;
  return ModelHandle();
}

bool StoredTrainer::BeginUpkeep() {
  const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return turn_ == Turn::kNone || closed_;
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&free));
  if (closed_) return false;
  turn_ = Turn::kUpkeep;
  return true;
}

void StoredTrainer::EndTurn() {
  absl::MutexLock lock(&mutex_);
  if (turn_ == Turn::kCall) last_use_ = context_.now();
  turn_ = Turn::kNone;
}

void StoredTrainer::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

// --- Memory ---

absl::Status StoredTrainer::Load() {
  std::vector<std::string> warnings;
  auto saved = folder_.LoadNewest(&warnings);
  for (const std::string& warning : warnings) {
    context_.warn(absl::StrCat("trainers/", id_, ": ", warning));
  }
  if (!saved.ok()) {
    return Prefixed(absl::StrCat("trainers/", id_, " cannot be taken back"),
                    saved.status());
  }
  const TrainerOrigin& origin = saved->record.origin;
  ASSIGN_OR_RETURN(auto trainer,
                   Trainer::Create(*context_.devices, origin.model,
                                   saved->state.parameters, origin.config,
                                   {.owner = absl::StrCat("trainers/", id_)}));
  RETURN_IF_ERROR(
      trainer->Load(std::move(saved->state), /*weights_only=*/false));
  trainer_ = std::move(trainer);
  calls_ = std::move(saved->record.calls);
  ReplaceOrigin(std::move(saved->record.origin));
  NoteSaved();
  return absl::OkStatus();
}

void StoredTrainer::ReplaceOrigin(TrainerOrigin origin) {
  origin_ = std::make_shared<TrainerOrigin>(std::move(origin));
  absl::MutexLock lock(&mutex_);
  info_.origin = origin_;
}

void StoredTrainer::Unload() {
  trainer_.reset();
  ReplaceWeights(nullptr);
  absl::MutexLock lock(&mutex_);
  info_.loaded = false;
  // What was not saved is gone.
  info_.step = info_.saved_step;
  info_.accumulated_calls = saved_accumulated_calls_;
  info_.last_number = info_.saved_number;
}

// --- Training ---

absl::StatusOr<StepResult> StoredTrainer::Step(const NumberedStep& step) {
  const bool numbered = step.number != 0;
  if (numbered) {
    ASSIGN_OR_RETURN(
        const StepResult* const done,
        calls_.Find(step.number, step.request_sha256, trainer_->step()));
    if (done != nullptr) {
      RETURN_IF_ERROR(SaveIfDue());
      return *done;
    }
  }
  ASSIGN_OR_RETURN(const StepResult result, trainer_->Step(step.call));
  if (numbered) calls_.Add({step.number, step.request_sha256, result});
  ++unsaved_calls_;
  NoteChange(result.updated);
  RETURN_IF_ERROR(SaveIfDue());
  return result;
}

bool StoredTrainer::lost() {
  return absl::IsInternal(trainer_->Save().status());
}

absl::Status StoredTrainer::GoOnFrom(SavedTrainer saved, bool weights_only) {
  if (saved.record.origin.model->config().SerializeAsString() !=
      origin_->model->config().SerializeAsString()) {
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint: is of another model than trainers/", id_,
                     "; their model configs must be equal"));
  }
  RETURN_IF_ERROR(trainer_->Load(std::move(saved.state), weights_only));
  ++unsaved_calls_;
  NoteChange(/*weights_changed=*/true);
  return SaveNow();
}

void StoredTrainer::NoteChange(bool weights_changed) {
  bool fetch = false;
  {
    absl::MutexLock lock(&mutex_);
    info_.step = trainer_->step();
    info_.accumulated_calls = trainer_->accumulated_calls();
    info_.last_number = calls_.last_number();
    fetch = weights_changed && weights_wanted_;
    if (weights_changed) weights_wanted_ = false;
  }
  if (!weights_changed) return;
  ReplaceWeights(nullptr);
  // Should it fail, readers fetch them themselves and learn why.
  if (fetch) (void)FetchWeights();
}

// --- Saving ---

absl::StatusOr<Checkpoint> StoredTrainer::Capture() {
  TrainerRecord record;
  record.origin = *origin_;
  record.save_time = context_.now();
  record.accumulated_calls = trainer_->accumulated_calls();
  record.calls = calls_;
  ASSIGN_OR_RETURN(TrainerState state, trainer_->Save());
  return MakeCheckpoint(record, std::move(state));
}

absl::Status StoredTrainer::Save() {
  return unsaved_calls_ == 0 ? absl::OkStatus() : SaveNow();
}

absl::Status StoredTrainer::SaveNow() {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Capture());
  RETURN_IF_ERROR(folder_.Save(checkpoint));
  NoteSaved();
  return absl::OkStatus();
}

absl::Status StoredTrainer::SaveIfDue() {
  if (unsaved_calls_ == 0) return absl::OkStatus();
  const int64_t every = origin_->save_every_calls;
  if (every > 0 && unsaved_calls_ >= every) {
    const absl::Status saved = SaveNow();
    if (saved.ok()) return saved;
    return Prefixed(absl::StrCat("trainers/", id_,
                                 ": the call is done, but could not be saved; "
                                 "with its number it can be made again"),
                    saved);
  }
  const absl::Time now = context_.now();
  const bool clock_went_back = now < save_time_;
  if (now - save_time_ < context_.save_interval && !clock_went_back) {
    return absl::OkStatus();
  }
  const absl::Status saved = SaveNow();
  if (saved.ok()) return saved;
  save_time_ = now;  // tried again an interval later
  context_.warn(
      absl::StrCat("trainers/", id_, " could not be saved: ", saved.message()));
  return absl::OkStatus();
}

absl::StatusOr<TrainerSummary> StoredTrainer::SaveNamed(
    absl::string_view checkpoint_id) {
  ASSIGN_OR_RETURN(const Checkpoint checkpoint, Capture());
  RETURN_IF_ERROR(folder_.Save(checkpoint));
  NoteSaved();
  return folder_.SaveNamed(checkpoint_id, checkpoint);
}

void StoredTrainer::NoteSaved() {
  unsaved_calls_ = 0;
  save_time_ = context_.now();
  absl::MutexLock lock(&mutex_);
  info_.loaded = true;
  info_.step = info_.saved_step = trainer_->step();
  info_.accumulated_calls = saved_accumulated_calls_ =
      trainer_->accumulated_calls();
  info_.last_number = info_.saved_number = calls_.last_number();
}

// --- Weights for readers ---

ModelHandle StoredTrainer::ReadyWeights() {
  absl::MutexLock lock(&mutex_);
  last_use_ = context_.now();
  weights_wanted_ = true;
  return weights_;
}

absl::StatusOr<ModelHandle> StoredTrainer::FetchWeights() {
  ASSIGN_OR_RETURN(std::vector<float> parameters, trainer_->Parameters());
  ModelHandle weights = ModelVersion::InMemory(
      origin_->model, std::move(parameters), absl::StrCat("trainers/", id_),
      origin_->vocabulary);
  ReplaceWeights(weights);
  return weights;
}

void StoredTrainer::ReplaceWeights(ModelHandle weights) {
  {
    absl::MutexLock lock(&mutex_);
    std::swap(weights, weights_);
  }
  if (weights != nullptr) context_.drop_weights(*weights);
}

}  // namespace recurve
