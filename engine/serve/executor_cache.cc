#include "engine/serve/executor_cache.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace recurve {

absl::StatusOr<Executor*> ExecutorCache::Get(const ModelHandle& version,
                                             Backend& backend) {
  const auto found = std::find_if(
      slots_.begin(), slots_.end(),
      [&](const Slot& slot) { return slot.version.lock() == version; });
  if (found != slots_.end()) {
    std::rotate(found, found + 1, slots_.end());
    return slots_.back().executor.get();
  }

  slots_.erase(
      std::remove_if(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.version.expired(); }),
      slots_.end());
  if (static_cast<int>(slots_.size()) >= max_models_) {
    slots_.erase(slots_.begin());
  }
  ASSIGN_OR_RETURN(const auto parameters, version->Parameters());
  const int64_t bytes =
      static_cast<int64_t>(parameters->size() * sizeof(float));
  Slot slot;
  slot.version = version;
  ASSIGN_OR_RETURN(slot.parameters, backend.Allocate(bytes));
  RETURN_IF_ERROR(
      backend.Upload(slot.parameters->data(), parameters->data(), bytes));
  ASSIGN_OR_RETURN(
      slot.executor,
      Executor::Create(version->model, backend,
                       static_cast<const float*>(slot.parameters->data())));
  slots_.push_back(std::move(slot));
  return slots_.back().executor.get();
}

void ExecutorCache::Drop(const ModelVersion& version) {
  slots_.erase(std::remove_if(slots_.begin(), slots_.end(),
                              [&](const Slot& slot) {
                                const ModelHandle held = slot.version.lock();
                                return held == nullptr ||
                                       held.get() == &version;
                              }),
               slots_.end());
}

void ExecutorCache::DropOthers(const ModelHandle& version) {
  slots_.erase(std::remove_if(slots_.begin(), slots_.end(),
                              [&](const Slot& slot) {
                                return slot.version.lock() != version;
                              }),
               slots_.end());
}

}  // namespace recurve
