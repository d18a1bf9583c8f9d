#include "server/trainer_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace recurve::server {
namespace {

absl::Status NoSuchTrainer(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("there is no trainers/", id));
}

absl::Status BeingMade(absl::string_view id) {
  return absl::AbortedError(
      absl::StrCat("trainers/", id, " is being created; try again"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<TrainerEntry>> TrainerStore::Create(
    const std::string& id, const std::string& request_id, const Make& make) {
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [other, slot] : slots_) {
      if (request_id.empty() || slot.request_id != request_id) continue;
      if (slot.entry == nullptr) return BeingMade(other);
      return slot.entry;
    }
    if (slots_.contains(id)) {
      return absl::AlreadyExistsError(
          absl::StrCat("trainers/", id, " already exists"));
    }
    if (static_cast<int>(slots_.size()) >= max_trainers_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", max_trainers_,
                       " trainers, the limit; delete one first"));
    }
    slots_[id].request_id = request_id;
  }
  auto entry = std::make_shared<TrainerEntry>();
  entry->id = id;
  entry->request_id = request_id;
  entry->create_time = absl::Now();
  const absl::Status made = make(*entry);
  absl::MutexLock lock(&mutex_);
  if (!made.ok()) {
    slots_.erase(id);
    return made;
  }
  slots_[id].entry = entry;
  return entry;
}

absl::StatusOr<std::shared_ptr<TrainerEntry>> TrainerStore::Get(
    absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = slots_.find(id);
  if (it == slots_.end() || it->second.entry == nullptr) {
    return NoSuchTrainer(id);
  }
  return it->second.entry;
}

std::vector<std::shared_ptr<TrainerEntry>> TrainerStore::List(
    absl::string_view after, int limit) const {
  std::vector<std::shared_ptr<TrainerEntry>> entries;
  absl::MutexLock lock(&mutex_);
  for (auto it = slots_.upper_bound(after);
       it != slots_.end() && static_cast<int>(entries.size()) < limit; ++it) {
    if (it->second.entry != nullptr) entries.push_back(it->second.entry);
  }
  return entries;
}

absl::Status TrainerStore::Delete(absl::string_view id) {
  std::shared_ptr<TrainerEntry> entry;  // declared first: freed unlocked
  absl::MutexLock lock(&mutex_);
  const auto it = slots_.find(id);
  if (it == slots_.end()) return NoSuchTrainer(id);
  if (it->second.entry == nullptr) return BeingMade(id);
  entry = std::move(it->second.entry);
  slots_.erase(it);
  return absl::OkStatus();
}

}  // namespace recurve::server
