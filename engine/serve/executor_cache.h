// The models that one device has ready: an executor, its weights and its arena
// each.
#ifndef RECURVE_ENGINE_SERVE_EXECUTOR_CACHE_H_
#define RECURVE_ENGINE_SERVE_EXECUTOR_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/model/executor.h"
#include "engine/schedule/account_backend.h"
#include "engine/schedule/device.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/model_version.h"
#include "kernels/backend.h"

namespace recurve {

// Under whose name the ledger has a version: its own, or `evaluation` for one
// that is in no registry.
std::string MemoryOwner(const ModelVersion& version);

// A model is in the device's ledger from before its weights are uploaded until
// they are freed. One that nobody uses is evicted when its memory is wanted by
// whomever, the one used longest ago first; the next use loads it again.
//
// Acquire, Release, Pin, Drop and Clear on the device's thread alone.
class ExecutorCache : public Evictor {
 public:
  // A model in use: from Acquire to Release it stays.
  class Slot;

  // `device` outlives the cache.
  explicit ExecutorCache(DeviceWorker& device);
  // REQUIRES: Clear was the last call.
  ~ExecutorCache() override;

  // Makes the version ready for passes whose inference plan is within `plan`,
  // loading it or growing its arena if need be. ResourceExhausted, with the
  // numbers, if the device does not have the memory now; else as
  // ModelVersion::Parameters. What is in use is not touched by an error.
  absl::StatusOr<Slot*> Acquire(const ModelHandle& version,
                                const MemoryPlan& plan, Backend& backend);
  // The same within memory that the caller holds, for this one use: nobody else
  // finds the model, and its Release frees it. REQUIRES: a plan of the version
  // is held and nothing of it is used.
  absl::StatusOr<Slot*> LoadWithin(const Ledger::Reservation& held,
                                   const ModelHandle& version,
                                   Backend& backend);
  static Executor& ExecutorOf(Slot& slot);
  void Release(Slot* slot);
  // Whether any model is that is not in memory of the caller's: then others'
  // memory will come back.
  bool AnyInUse() const;

  // Makes the version ready as Acquire does, and keeps it so though nobody uses
  // it, until Unpin or Drop. True if it was not kept before.
  absl::StatusOr<bool> Pin(const ModelHandle& version, const MemoryPlan& plan,
                           Backend& backend);
  // It may be evicted again.
  void Unpin(const ModelVersion& version);

  // Frees the version's memory; not that of one in use.
  void Drop(const ModelVersion& version);
  // REQUIRES: none is in use.
  void Clear();

  int64_t EvictableBytes() override;
  void Evict(int64_t bytes) override;

 private:
  using Slots = std::vector<std::unique_ptr<Slot>>;

  Slot* Find(const ModelHandle& version);
  absl::StatusOr<std::unique_ptr<Slot>> Load(const ModelHandle& version,
                                             const Ledger::Reservation& held,
                                             Backend& backend) const;
  // Takes out the slots of which `goes` is true among those that nobody uses,
  // used longest ago first, and frees them.
  template <typename Goes>
  void Remove(const Goes& goes);

  DeviceWorker& device_;
  mutable absl::Mutex mutex_;
  Slots slots_ ABSL_GUARDED_BY(mutex_);  // used last at the back
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_EXECUTOR_CACHE_H_
