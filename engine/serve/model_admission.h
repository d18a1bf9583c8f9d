// Who may use a model on a device: everything that runs passes there comes by
// here, so that there is one line for a device's memory.
//
// A device makes room for the model and for the arena of its largest pass
// before the first, and keeps both until the work has left. Where models in use
// leave no room, work waits in line, first come first served; not work that
// brings memory of its own. Where training leaves none, it is refused. Who
// waits holds nothing.
#ifndef RECURVE_ENGINE_SERVE_MODEL_ADMISSION_H_
#define RECURVE_ENGINE_SERVE_MODEL_ADMISSION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/model/executor.h"
#include "engine/schedule/device.h"
#include "engine/schedule/held_memory.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/executor_cache.h"
#include "engine/serve/model_version.h"
#include "kernels/backend.h"

namespace recurve {

// Work that needs a model on a device. Called on the device's thread, but for
// the constant methods.
class DeviceWork {
 public:
  virtual ~DeviceWork() = default;

  virtual ModelHandle version() const = 0;
  // What all its passes are within.
  virtual MemoryPlan memory() const = 0;
  // Memory of its own to run within; null: the device's.
  virtual const HeldMemory* held() const { return nullptr; }

  // Why it need not run any more, if so. Looked at before it gets its memory.
  virtual absl::Status Check() = 0;
  // While it waits: whether it is still wanted.
  virtual bool IsWanted() = 0;

  // It has its memory; false if there is nothing left to do.
  virtual bool Begin() = 0;
  // One piece of it; true if there is more, which then goes behind whatever
  // else waits for the device.
  virtual bool Run(Executor& executor, Backend& backend) = 0;
  // After that, once it has given back its memory.
  virtual void End() = 0;
  // Instead of all that: Check's error, or what the device says of its memory;
  // OK if it waited and is not wanted any more.
  virtual void Refuse(const absl::Status& status, Backend& backend) = 0;
};

// Thread-safe.
class ModelAdmission {
 public:
  // `devices` outlives it.
  explicit ModelAdmission(DevicePool& devices);
  // REQUIRES: all work has left.
  ~ModelAdmission();

  DevicePool& devices() const { return devices_; }

  // Returns at once.
  void Submit(int rank, std::shared_ptr<DeviceWork> work);
  // Whether some work waits for this device's memory: whoever has a model there
  // for long should let it go some time.
  bool HasLine(int rank) const;
  std::vector<WaitingRequest> Waiting(int rank) const;

  // Whoever submits work of a version uses it from before to after, and may
  // while there is none.
  void AddUse(const ModelVersion& version);
  void RemoveUse(const ModelVersion& version);
  // Frees what the devices keep for this version once nobody uses it: work
  // under way could not read the weights again.
  void Drop(const ModelVersion& version);
  // Takes back a Drop that still waits for that.
  void Keep(const ModelVersion& version);

  // What the device has ready.
  ExecutorCache& cache(int rank) { return *caches_[rank]; }

 private:
  struct Visit {  // of some work to a device
    std::shared_ptr<DeviceWork> work;
    ModelHandle version;  // the work's
    int rank = 0;
    ExecutorCache::Slot* slot = nullptr;  // once it has memory
    // While it has not.
    absl::Time since;
    std::string reason;
  };
  // kWaitsForRelease: for memory that the device's own tasks are about to free.
  enum class Entry { kBegins, kWaits, kWaitsForRelease, kIsGone };
  struct Use {
    int64_t count = 0;
    bool drop = false;  // after the last
  };

  // On the device's thread.
  void Arrive(Visit visit, Backend& backend);
  Entry TryEnter(Visit& visit, Backend& backend);
  void RunNext(Visit visit, Backend& backend);
  void AdmitWaiting(int rank, Backend& backend);
  void DropUnwanted(int rank, Backend& backend);
  void Refuse(const Visit& visit, const absl::Status& status, Backend& backend);

  void EnqueueNext(Visit visit);
  void EnqueueAdmission(int rank);
  void DropNow(const ModelVersion& version);

  DevicePool& devices_;
  std::vector<std::unique_ptr<ExecutorCache>> caches_;  // by device
  mutable absl::Mutex mutex_;
  std::map<const ModelVersion*, Use> uses_ ABSL_GUARDED_BY(mutex_);
  // By device; changed by its thread alone.
  std::vector<std::deque<Visit>> lines_ ABSL_GUARDED_BY(mutex_);
  std::vector<char> admits_later_;  // each its device's thread's
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_MODEL_ADMISSION_H_
