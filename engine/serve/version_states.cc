#include "engine/serve/version_states.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/status.h"

namespace recurve {

// Destroyed with the last handle to the version that Enter gave.
class VersionStates::Use {
 public:
  Use(std::shared_ptr<States> states, ModelHandle version)
      : states_(std::move(states)), version_(std::move(version)) {}
  ~Use();

 private:
  const std::shared_ptr<States> states_;
  const ModelHandle version_;
};

class VersionStates::States : public std::enable_shared_from_this<States> {
 public:
  States(Hooks hooks, Precision default_precision)
      : hooks_(std::move(hooks)), default_precision_(default_precision) {}
  // No hook is called any more.
  void Close() {
    absl::MutexLock change(&change_);
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  const Hooks& hooks() const { return hooks_; }

  absl::StatusOr<ModelHandle> Enter(const ModelHandle& version);
  absl::Status Load(const ModelHandle& version,
                    std::optional<Precision> precision);
  void Unload(const ModelHandle& version);
  void Forget(const ModelVersion& version) {
    absl::MutexLock lock(&mutex_);
    entries_.erase(&version);
  }
  VersionState StateOf(const ModelVersion& version) const {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(&version);
    return found == entries_.end() ? VersionState::kOnDemand
                                   : found->second.state;
  }
  Precision PrecisionOf(const ModelVersion& version) const {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(&version);
    return found == entries_.end() ? default_precision_
                                   : found->second.precision;
  }
  void EndUse(const ModelHandle& version);

 private:
  struct Entry {
    ModelHandle version;
    VersionState state = VersionState::kOnDemand;
    Precision precision;
    std::weak_ptr<Use> use;  // of all that use it now
  };

  Entry& EntryOf(const ModelHandle& version)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return entries_
        .try_emplace(version.get(),
                     Entry{version, VersionState::kOnDemand, default_precision_,
                           std::weak_ptr<Use>()})
        .first->second;
  }
  void FreeIfDrained(const ModelHandle& version)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_);

  const Hooks hooks_;
  const Precision default_precision_;
  // Serializes changes of state, which may take as long as loading.
  absl::Mutex change_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Those that are in use or not on demand.
  std::map<const ModelVersion*, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

VersionStates::Use::~Use() { states_->EndUse(version_); }

// --- The states ---

absl::StatusOr<ModelHandle> VersionStates::States::Enter(
    const ModelHandle& version) {
  absl::MutexLock lock(&mutex_);
  Entry& entry = EntryOf(version);
  if (entry.state == VersionState::kDraining ||
      entry.state == VersionState::kUnloaded) {
    return absl::FailedPreconditionError(absl::StrCat(
        version->name, ": is unloaded; load it, or use another version"));
  }
  std::shared_ptr<Use> use = entry.use.lock();
  if (use == nullptr) {
    use = std::make_shared<Use>(shared_from_this(), version);
    entry.use = use;
  }
  // As long as the use, which keeps the stored version.
  return ModelHandle(std::move(use), version->At(entry.precision).get());
}

// Others may have begun to use it since.
void VersionStates::States::EndUse(const ModelHandle& version) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(version.get());
  if (found == entries_.end() || !found->second.use.expired()) return;
  if (found->second.state == VersionState::kOnDemand) {
    entries_.erase(found);
  } else if (found->second.state == VersionState::kDraining && !closed_) {
    hooks_.later([states = shared_from_this(), version] {
      absl::MutexLock change(&states->change_);
      states->FreeIfDrained(version);
    });
  }
}

absl::Status VersionStates::States::Load(const ModelHandle& version,
                                         std::optional<Precision> precision) {
  absl::MutexLock change(&change_);
  const Precision before = PrecisionOf(*version);
  const Precision after = precision.value_or(before);
  RETURN_IF_ERROR(hooks_.load(version->At(after)));
  {
    absl::MutexLock lock(&mutex_);
    if (version->deleted()) return absl::OkStatus();
    Entry& entry = EntryOf(version);
    entry.state = VersionState::kLoaded;
    entry.precision = after;
  }
  if (after != before) hooks_.free(*version->At(before));
  return absl::OkStatus();
}

void VersionStates::States::Unload(const ModelHandle& version) {
  absl::MutexLock change(&change_);
  {
    absl::MutexLock lock(&mutex_);
    Entry& entry = EntryOf(version);
    if (entry.state == VersionState::kUnloaded) return;
    entry.state = VersionState::kDraining;
  }
  FreeIfDrained(version);
}

void VersionStates::States::FreeIfDrained(const ModelHandle& version) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(version.get());
    if (closed_ || found == entries_.end() ||
        found->second.state != VersionState::kDraining ||
        !found->second.use.expired()) {
      return;
    }
    found->second.state = VersionState::kUnloaded;
  }
  for (const ModelHandle& any : version->AtAllPrecisions()) hooks_.free(*any);
}

// --- By name ---

VersionStates::VersionStates(const Registry& registry, Hooks hooks,
                             Precision default_precision)
    : registry_(registry),
      states_(std::make_shared<States>(std::move(hooks), default_precision)) {}

VersionStates::~VersionStates() { states_->Close(); }

absl::StatusOr<ModelHandle> VersionStates::Enter(absl::string_view name) {
  ASSIGN_OR_RETURN(const ModelHandle version, registry_.Get(name));
  return states_->Enter(version);
}

absl::StatusOr<ModelHandle> VersionStates::Load(
    absl::string_view name, std::optional<Precision> precision) {
  ASSIGN_OR_RETURN(ModelHandle version, registry_.Get(name));
  RETURN_IF_ERROR(states_->Load(version, precision));
  return version;
}

absl::StatusOr<ModelHandle> VersionStates::Unload(absl::string_view name) {
  ASSIGN_OR_RETURN(ModelHandle version, registry_.Get(name));
  states_->Unload(version);
  return version;
}

void VersionStates::Forget(const ModelVersion& version) {
  states_->Forget(version);
}

VersionState VersionStates::StateOf(const ModelVersion& version) const {
  return states_->StateOf(version);
}

Precision VersionStates::PrecisionOf(const ModelVersion& version) const {
  return states_->PrecisionOf(version);
}

absl::Status VersionStates::CheckReady(absl::string_view name) const {
  ASSIGN_OR_RETURN(const ModelHandle version, registry_.Get(name));
  const VersionState state = StateOf(*version);
  if (state == VersionState::kDraining || state == VersionState::kUnloaded) {
    return absl::FailedPreconditionError(
        absl::StrCat(version->name, ": is unloaded"));
  }
  RETURN_IF_ERROR(version->CheckParameters());
  return states_->hooks().check_fits(*version->At(PrecisionOf(*version)));
}

}  // namespace recurve
