#include "engine/train/trainer_store.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/directory.h"
#include "engine/base/resource_id.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status NoSuchTrainer(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("there is no trainers/", id));
}

absl::Status BeingMade(absl::string_view id) {
  return absl::AbortedError(
      absl::StrCat("trainers/", id, " is being created; try again"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainerStore>> TrainerStore::Open(
    Options options) {
  std::unique_ptr<TrainerStore> store(new TrainerStore(std::move(options)));
  RETURN_IF_ERROR(store->OpenAll());
  return store;
}

absl::Status TrainerStore::OpenAll() {
  RETURN_IF_ERROR(CreateDirectories(options_.directory));
  SweepAside(options_.directory);
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   ListDirectory(options_.directory));
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    if (!CheckResourceId(id, "trainer").ok()) continue;  // not ours
    auto trainer = StoredTrainer::Open(options_.context, id, PathOf(id));
    if (!trainer.ok()) {
      options_.context.warn(absl::StrCat(
          "trainers/", id, " cannot be used: ", trainer.status().message()));
    }
    const std::string request_id =
        trainer.ok() ? (*trainer)->Describe().origin->request_id : "";
    slots_.emplace(id, Slot{request_id, std::move(trainer)});
  }
  return SyncDirectory(options_.directory);
}

std::string TrainerStore::PathOf(absl::string_view id) const {
  return absl::StrCat(options_.directory, "/", id);
}

absl::StatusOr<std::shared_ptr<StoredTrainer>> TrainerStore::Find(
    absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = slots_.find(id);
  if (it == slots_.end()) return NoSuchTrainer(id);
  RETURN_IF_ERROR(it->second.trainer.status());
  if (*it->second.trainer == nullptr) return NoSuchTrainer(id);
  return it->second.trainer;
}

std::vector<std::shared_ptr<StoredTrainer>> TrainerStore::Loaded() const {
  std::vector<std::shared_ptr<StoredTrainer>> loaded;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, slot] : slots_) {
    if (!slot.trainer.ok() || *slot.trainer == nullptr) continue;
    if ((*slot.trainer)->Describe().loaded) loaded.push_back(*slot.trainer);
  }
  return loaded;
}

// Each time is read once: calls go on meanwhile, and an order that changes
// while it is sorted by makes a sort read beyond the ends.
std::vector<std::shared_ptr<StoredTrainer>> TrainerStore::LoadedByLastUse()
    const {
  std::multimap<absl::Time, std::shared_ptr<StoredTrainer>> by_last_use;
  for (auto& trainer : Loaded()) {
    by_last_use.emplace(trainer->last_use(), trainer);
  }
  std::vector<std::shared_ptr<StoredTrainer>> sorted;
  for (auto& [time, trainer] : by_last_use) sorted.push_back(trainer);
  return sorted;
}

absl::StatusOr<TrainerInfo> TrainerStore::Get(absl::string_view id) const {
  ASSIGN_OR_RETURN(const auto trainer, Find(id));
  return trainer->Describe();
}

std::vector<TrainerInfo> TrainerStore::List(absl::string_view after,
                                            int limit) const {
  std::vector<TrainerInfo> trainers;
  absl::MutexLock lock(&mutex_);
  for (auto it = slots_.upper_bound(after);
       it != slots_.end() && static_cast<int>(trainers.size()) < limit; ++it) {
    const auto& trainer = it->second.trainer;
    if (!trainer.ok() || *trainer == nullptr) continue;
    trainers.push_back((*trainer)->Describe());
  }
  return trainers;
}

// --- Creation and deletion ---

// Null if the id is now taken, else the trainer that the request made before.
absl::StatusOr<std::shared_ptr<StoredTrainer>> TrainerStore::TakeId(
    const std::string& id, const std::string& request_id) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [other, slot] : slots_) {
    if (request_id.empty() || slot.request_id != request_id) continue;
    if (slot.trainer.ok() && *slot.trainer == nullptr) return BeingMade(other);
    return slot.trainer;
  }
  if (slots_.contains(id)) {
    return absl::AlreadyExistsError(
        absl::StrCat("trainers/", id, " already exists"));
  }
  if (static_cast<int>(slots_.size()) >= options_.max_stored) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", options_.max_stored,
                     " trainers on disk, the limit; delete one first"));
  }
  slots_.emplace(id, Slot{request_id, nullptr});
  return nullptr;
}

absl::StatusOr<TrainerInfo> TrainerStore::Create(const std::string& id,
                                                 const std::string& request_id,
                                                 const Make& make) {
  ASSIGN_OR_RETURN(const auto existing, TakeId(id, request_id));
  if (existing != nullptr) return existing->Describe();
  auto created = CreateStored(id, request_id, make);
  absl::MutexLock lock(&mutex_);
  if (!created.ok()) {
    slots_.erase(id);
    return created.status();
  }
  slots_.find(id)->second.trainer = created;
  return (*created)->Describe();
}

absl::StatusOr<std::shared_ptr<StoredTrainer>> TrainerStore::CreateStored(
    const std::string& id, const std::string& request_id, const Make& make) {
  ASSIGN_OR_RETURN(TrainerStart start, make());
  start.origin.request_id = request_id;
  start.origin.create_time = options_.context.now();
  RETURN_IF_ERROR(TakeRoom());
  auto created = StoredTrainer::Create(options_.context, id, PathOf(id),
                                       std::move(start.origin),
                                       std::move(start.parameters));
  if (!created.ok()) ReturnRoom();
  return created;
}

absl::Status TrainerStore::Delete(absl::string_view id) {
  auto found = Find(id);
  if (absl::IsNotFound(found.status())) return found.status();
  if (!found.ok()) return RemoveFiles(id);  // unreadable: nobody uses it
  RETURN_IF_ERROR((*found)->BeginCall());
  const TrainerTurn turn(*found);
  RETURN_IF_ERROR(RemoveFiles(id));
  turn->Close();
  if (turn->loaded()) Discard(*turn);
  return absl::OkStatus();
}

absl::Status TrainerStore::RemoveFiles(absl::string_view id) {
  ASSIGN_OR_RETURN(const std::string aside, MoveAside(PathOf(id)));
  {
    absl::MutexLock lock(&mutex_);
    slots_.erase(slots_.find(id));
  }
  (void)RemoveTree(aside);  // what stays, the next start removes
  return absl::OkStatus();
}

// --- Memory ---

absl::Status TrainerStore::TakeRoom() {
  {
    absl::MutexLock lock(&mutex_);
    if (loaded_ < options_.max_loaded) {
      ++loaded_;
      return absl::OkStatus();
    }
  }
  absl::Status why = absl::ResourceExhaustedError(
      absl::StrCat(options_.max_loaded,
                   " trainers are in memory, the limit, and all are at work; "
                   "try again later"));
  for (const auto& other : LoadedByLastUse()) {
    if (!other->TryBeginUpkeep()) continue;
    const TrainerTurn turn(other);
    if (!turn->loaded()) continue;
    const absl::Status saved = turn->Save();
    if (!saved.ok()) {
      why = absl::ResourceExhaustedError(
          absl::StrCat("there is no room in memory, since trainers/",
                       turn->id(), " cannot be saved: ", saved.message()));
      continue;
    }
    turn->Unload();
    return absl::OkStatus();  // its room is taken over
  }
  return why;
}

void TrainerStore::ReturnRoom() {
  absl::MutexLock lock(&mutex_);
  --loaded_;
}

absl::Status TrainerStore::MakeLoaded(StoredTrainer& trainer) {
  if (trainer.loaded()) return absl::OkStatus();
  RETURN_IF_ERROR(TakeRoom());
  const absl::Status loaded = trainer.Load();
  if (!loaded.ok()) ReturnRoom();
  return loaded;
}

absl::Status TrainerStore::SaveAndUnload(StoredTrainer& trainer) {
  RETURN_IF_ERROR(trainer.Save());
  Discard(trainer);
  return absl::OkStatus();
}

void TrainerStore::Discard(StoredTrainer& trainer) {
  trainer.Unload();
  ReturnRoom();
}

// --- Calls ---

absl::StatusOr<TrainerTurn> TrainerStore::BeginCall(absl::string_view id) {
  ASSIGN_OR_RETURN(auto trainer, Find(id));
  RETURN_IF_ERROR(trainer->BeginCall());
  TrainerTurn turn(std::move(trainer));
  RETURN_IF_ERROR(MakeLoaded(*turn));
  return turn;
}

absl::StatusOr<StepResult> TrainerStore::Step(absl::string_view id,
                                              const NumberedStep& step) {
  ASSIGN_OR_RETURN(const TrainerTurn turn, BeginCall(id));
  auto result = turn->Step(step);
  if (absl::IsInternal(result.status()) && turn->lost()) Discard(*turn);
  return result;
}

absl::StatusOr<NamedTrainerSummary> TrainerStore::Save(
    absl::string_view id, const std::string& checkpoint_id) {
  if (!checkpoint_id.empty()) {
    RETURN_IF_ERROR(CheckResourceId(checkpoint_id, "checkpoint_id"));
  }
  ASSIGN_OR_RETURN(const TrainerTurn turn, BeginCall(id));
  NamedTrainerSummary saved;
  saved.id = checkpoint_id;
  if (checkpoint_id.empty()) {
    RETURN_IF_ERROR(turn->Save());
    ASSIGN_OR_RETURN(saved.summary, turn->folder().Summarize());
  } else {
    ASSIGN_OR_RETURN(saved.summary, turn->SaveNamed(checkpoint_id));
  }
  return saved;
}

absl::StatusOr<TrainerInfo> TrainerStore::GoOnFrom(
    absl::string_view id, absl::string_view source_id,
    absl::string_view checkpoint_id, bool weights_only) {
  ASSIGN_OR_RETURN(const auto source, Find(source_id));
  ASSIGN_OR_RETURN(SavedTrainer saved,
                   source->folder().LoadNamed(checkpoint_id));
  ASSIGN_OR_RETURN(const TrainerTurn turn, BeginCall(id));
  RETURN_IF_ERROR(turn->GoOnFrom(std::move(saved), weights_only));
  return turn->Describe();
}

absl::StatusOr<std::vector<NamedTrainerSummary>> TrainerStore::ListCheckpoints(
    absl::string_view id) const {
  ASSIGN_OR_RETURN(const auto trainer, Find(id));
  return trainer->folder().ListNamed();
}

// --- Readers ---

absl::StatusOr<ModelHandle> TrainerStore::ReadyWeights(
    absl::string_view id) const {
  ASSIGN_OR_RETURN(const auto trainer, Find(id));
  return trainer->ReadyWeights();
}

absl::StatusOr<ModelHandle> TrainerStore::Weights(absl::string_view id,
                                                  absl::Time deadline) {
  ASSIGN_OR_RETURN(auto trainer, Find(id));
  ASSIGN_OR_RETURN(ModelHandle weights, trainer->BeginUpkeep(deadline));
  if (weights != nullptr) return weights;
  const TrainerTurn turn(std::move(trainer));
  RETURN_IF_ERROR(MakeLoaded(*turn));
  return turn->FetchWeights();
}

// --- Upkeep ---

absl::Duration TrainerStore::IdleTimeout() const {
  DevicePool& devices = *options_.context.devices;
  for (int device = 0; device < devices.size(); ++device) {
    if (devices.device(device).ledger().Snapshot().waiting.empty()) continue;
    return std::min(options_.idle_timeout, options_.idle_timeout_when_wanted);
  }
  return options_.idle_timeout;
}

void TrainerStore::DoUpkeep() {
  const absl::Duration timeout = IdleTimeout();
  for (const auto& trainer : Loaded()) {
    if (!trainer->TryBeginUpkeep()) continue;
    const TrainerTurn turn(trainer);
    if (!turn->loaded()) continue;
    const absl::Duration idle = options_.context.now() - turn->last_use();
    const absl::Status kept =
        idle >= timeout ? SaveAndUnload(*turn) : turn->SaveIfDue();
    if (kept.ok()) continue;
    options_.context.warn(absl::StrCat(
        "trainers/", turn->id(), " could not be saved: ", kept.message()));
  }
}

void TrainerStore::SaveAll() {
  for (const auto& trainer : Loaded()) {
    if (!trainer->BeginUpkeep()) continue;
    const TrainerTurn turn(trainer);
    const absl::Status saved = turn->loaded() ? turn->Save() : absl::OkStatus();
    if (saved.ok()) continue;
    options_.context.warn(absl::StrCat(
        "trainers/", turn->id(), " could not be saved: ", saved.message()));
  }
}

}  // namespace recurve
