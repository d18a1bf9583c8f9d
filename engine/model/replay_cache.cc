#include "engine/model/replay_cache.h"

#include <algorithm>
#include <cassert>

namespace recurve {

ReplayCache::ReplayCache(Backend& backend, int capacity)
    : backend_(backend), capacity_(capacity) {
  assert(capacity >= 1);
}

absl::Status ReplayCache::Run(const Key& key,
                              absl::FunctionRef<absl::Status()> operations) {
  absl::Status status = backend_.Replay(Use(key).recording, operations);
  if (!status.ok()) entries_.pop_front();
  return status;
}

void ReplayCache::Clear() { entries_.clear(); }

// The key's entry, first in the list.
ReplayCache::Entry& ReplayCache::Use(const Key& key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(),
                   [&](const Entry& entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front();
  }
  if (entries_.size() == capacity_) entries_.pop_back();
  entries_.push_front({key, nullptr});
  return entries_.front();
}

}  // namespace recurve
