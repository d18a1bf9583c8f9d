#include "engine/serve/executor_cache.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace recurve {

std::string MemoryOwner(const ModelVersion& version) {
  return version.name.empty() ? "evaluation" : version.name;
}

class ExecutorCache::Slot {
 public:
  // Tells a version from a later one at the same address.
  std::weak_ptr<const ModelVersion> version;
  int uses = 0;         // guarded by the cache's mutex
  bool pinned = false;  // likewise
  // Changed by the device's thread while in use, ended by who takes it out. The
  // caller's: holds nothing.
  Ledger::Reservation memory;

  // The device thread's alone, freed in this order from below.
  std::unique_ptr<AccountBackend> backend;
  std::unique_ptr<DeviceBuffer> parameters;
  std::unique_ptr<Executor> executor;
};

ExecutorCache::ExecutorCache(DeviceWorker& device) : device_(device) {
  device_.ledger().AddEvictor(this);
}

ExecutorCache::~ExecutorCache() { device_.ledger().RemoveEvictor(this); }

// --- On the device's thread ---

absl::StatusOr<ExecutorCache::Slot*> ExecutorCache::Acquire(
    const ModelHandle& version, const MemoryPlan& plan, Backend& backend) {
  if (Slot* const slot = Find(version)) {
    if (plan.activations <= slot->memory.plan().activations) return slot;
    const absl::Status grown = slot->memory.TryResize(plan);
    if (grown.ok()) return slot;
    Release(slot);
    return grown;
  }
  Remove([](const Slot& slot) { return slot.version.expired(); });
  ASSIGN_OR_RETURN(Ledger::Reservation reservation,
                   device_.ledger().TryReserve(MemoryOwner(*version), plan));
  ASSIGN_OR_RETURN(auto slot, Load(version, reservation, backend));
  slot->memory = std::move(reservation);
  absl::MutexLock lock(&mutex_);
  slots_.push_back(std::move(slot));
  return slots_.back().get();
}

absl::StatusOr<ExecutorCache::Slot*> ExecutorCache::LoadWithin(
    const Ledger::Reservation& held, const ModelHandle& version,
    Backend& backend) {
  ASSIGN_OR_RETURN(auto slot, Load(version, held, backend));
  absl::MutexLock lock(&mutex_);
  slots_.push_back(std::move(slot));
  return slots_.back().get();
}

// In use from now on, if it is there.
ExecutorCache::Slot* ExecutorCache::Find(const ModelHandle& version) {
  absl::MutexLock lock(&mutex_);
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [&](const auto& slot) {
        return slot->memory && slot->version.lock() == version;
      });
  if (found == slots_.end()) return nullptr;
  std::rotate(found, found + 1, slots_.end());
  ++slots_.back()->uses;
  return slots_.back().get();
}

absl::StatusOr<std::unique_ptr<ExecutorCache::Slot>> ExecutorCache::Load(
    const ModelHandle& version, const Ledger::Reservation& held,
    Backend& backend) const {
  ASSIGN_OR_RETURN(const auto parameters, version->Parameters());
  const int64_t bytes =
      static_cast<int64_t>(parameters->size() * sizeof(float));
  auto slot = std::make_unique<Slot>();
  slot->version = version->weak_from_this();  // not of the one use of it
  slot->uses = 1;
  slot->backend = std::make_unique<AccountBackend>(backend, held.account());
  ASSIGN_OR_RETURN(slot->parameters, slot->backend->Allocate(bytes));
  RETURN_IF_ERROR(
      backend.Upload(slot->parameters->data(), parameters->data(), bytes));
  ASSIGN_OR_RETURN(
      slot->executor,
      Executor::Create(version->model, *slot->backend,
                       static_cast<const float*>(slot->parameters->data()),
                       ParameterUse::kFixed, version->precision()));
  return slot;
}

Executor& ExecutorCache::ExecutorOf(Slot& slot) { return *slot.executor; }

void ExecutorCache::Release(Slot* slot) {
  std::unique_ptr<Slot> ended;
  absl::MutexLock lock(&mutex_);
  --slot->uses;
  if (slot->memory) return;
  const auto at =
      std::find_if(slots_.begin(), slots_.end(),
                   [slot](const auto& other) { return other.get() == slot; });
  ended = std::move(*at);
  slots_.erase(at);
}

bool ExecutorCache::AnyInUse() const {
  absl::MutexLock lock(&mutex_);
  return std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
    return slot->memory && slot->uses > 0;
  });
}

absl::StatusOr<bool> ExecutorCache::Pin(const ModelHandle& version,
                                        const MemoryPlan& plan,
                                        Backend& backend) {
  ASSIGN_OR_RETURN(Slot* const slot, Acquire(version, plan, backend));
  absl::MutexLock lock(&mutex_);
  --slot->uses;
  return !std::exchange(slot->pinned, true);
}

void ExecutorCache::Unpin(const ModelVersion& version) {
  absl::MutexLock lock(&mutex_);
  for (const auto& slot : slots_) {
    if (slot->version.lock().get() == &version) slot->pinned = false;
  }
}

void ExecutorCache::Drop(const ModelVersion& version) {
  Remove([&](const Slot& slot) {
    const ModelHandle held = slot.version.lock();
    return held == nullptr || held.get() == &version;
  });
}

void ExecutorCache::Clear() {
  Remove([](const Slot&) { return true; });
}

// --- On any thread ---

int64_t ExecutorCache::EvictableBytes() {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& slot : slots_) {
    if (slot->uses == 0 && !slot->pinned) bytes += slot->memory.plan().total();
  }
  return bytes;
}

void ExecutorCache::Evict(int64_t bytes) {
  Remove([&bytes](const Slot& slot) {
    if (bytes <= 0 || slot.pinned) return false;
    bytes -= slot.memory.plan().total();
    return true;
  });
}

template <typename Goes>
void ExecutorCache::Remove(const Goes& goes) {
  // Shared, since a task must be copyable.
  auto removed = std::make_shared<Slots>();
  {
    absl::MutexLock lock(&mutex_);
    for (auto& slot : slots_) {
      if (slot->uses == 0 && goes(*slot)) removed->push_back(std::move(slot));
    }
    slots_.erase(std::remove(slots_.begin(), slots_.end(), nullptr),
                 slots_.end());
  }
  if (removed->empty()) return;
  for (const auto& slot : *removed) slot->memory.Release();
  if (device_.OnThread()) return;
  device_.Enqueue(TaskClass::kServing, [removed = std::move(removed)](
                                           Backend&) { removed->clear(); });
}

}  // namespace recurve
