// Recordings of operations that come back: a training that runs micro-batches
// of one shape, or one step of a stream after another, issues the same
// operations again and again, and a backend may repeat them at once.
#ifndef RECURVE_ENGINE_MODEL_REPLAY_CACHE_H_
#define RECURVE_ENGINE_MODEL_REPLAY_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/backend.h"

namespace recurve {

// Belongs to the backend's thread.
class ReplayCache {
 public:
  // All that the operations follow from: equal keys, equal operations.
  using Key = absl::InlinedVector<int64_t, 16>;  // without an allocation
  static constexpr int kDefaultCapacity = 16;

  // `backend` outlives the cache. Of more than `capacity` keys the one unused
  // for longest is forgotten.
  explicit ReplayCache(Backend& backend, int capacity = kDefaultCapacity);

  // Backend::Replay with the recording that belongs to `key`. After an error
  // the key is forgotten.
  absl::Status Run(const Key& key,
                   absl::FunctionRef<absl::Status()> operations);

  // Forgets all, before memory goes that the operations use.
  void Clear();

 private:
  struct Entry {
    Key key;
    std::unique_ptr<Recording> recording;
  };
  Entry& Use(const Key& key);

  Backend& backend_;
  const size_t capacity_;
  std::list<Entry> entries_;  // used last first
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_REPLAY_CACHE_H_
