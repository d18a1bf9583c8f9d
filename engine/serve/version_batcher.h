// One model version's batching on all devices: its queue, and a lane a device
// that runs pass after pass of what waits.
#ifndef RECURVE_ENGINE_SERVE_VERSION_BATCHER_H_
#define RECURVE_ENGINE_SERVE_VERSION_BATCHER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/serve/batch_plan.h"
#include "engine/serve/model_admission.h"
#include "engine/serve/model_version.h"
#include "engine/serve/run_plan.h"
#include "engine/serve/serving_statistics.h"
#include "engine/serve/state_pool.h"
#include "engine/serve/version_queue.h"
#include "kernels/precision.h"

namespace recurve {

// What the batchers of all versions share.
struct BatchingContext {
  ModelAdmission& admission;
  std::vector<StatePool*> pools;  // by device
  RunLimits run_limits;
  BatchLimits batch_limits;
  std::function<absl::Time()> now;
  // A request has left its queue and is about to be answered, or has been.
  std::function<void(const PendingRequest&)> leaving, answered;
  // Calls to Poll are needed, the next one at that time.
  std::function<void(absl::Time)> poll_at;
};

// Thread-safe.
class VersionBatcher {
 public:
  // `context` outlives it. ResourceExhausted, with the numbers, for a model
  // that no device can hold.
  static absl::StatusOr<std::shared_ptr<VersionBatcher>> Create(
      const BatchingContext& context, const ModelHandle& version,
      std::shared_ptr<VersionStatistics> statistics);
  ~VersionBatcher();

  // Of this version; it has come by the limits of all versions. An error, as
  // Batcher::Enqueue says them, and nothing else happens to it.
  absl::Status Enqueue(const Pending& request);

  // Answers those who need not wait any longer, sets those going whose pass has
  // waited for more long enough, and frees states from busy devices for idle
  // ones.
  void Poll();
  // Until what waits now has run, about, within sensible bounds.
  absl::Duration TimeToDrain() const;
  // Until the devices have left it. REQUIRES: no request is pending.
  void AwaitIdle();

 private:
  class Lane;
  // Of a lane: kSubmitted until it has its memory.
  enum class Phase { kIdle, kSubmitted, kRuns };

  VersionBatcher(const BatchingContext& context, const ModelHandle& version,
                 std::shared_ptr<VersionStatistics> statistics,
                 const RunPlan& plan);

  absl::Status CheckLongest(PendingRequest& request) const;
  absl::Status CheckDeadline(const PendingRequest& request) const;
  DeviceSet DevicesWithWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lanes to be submitted, for a request that has come or for what waits.
  std::vector<Lane*> WakeLanesFor(const PendingRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Lane*> WakeLanes(DeviceSet devices)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake(int rank, std::vector<Lane*>& woken)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Submit(const std::vector<Lane*>& lanes) ABSL_LOCKS_EXCLUDED(mutex_);
  void Rebalance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FreeFromElsewhere(const PendingRequest& request);
  using States = std::vector<std::shared_ptr<CarriedState>>;
  void SpillLater(int rank, States states);
  void Answer(const std::vector<Pending>& ended) ABSL_LOCKS_EXCLUDED(mutex_);
  // The version, for a request that is pending or a lane that is not idle.
  void Hold(const ModelHandle& version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGo(size_t holds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BatchingContext& context_;
  const std::shared_ptr<VersionStatistics> statistics_;
  const std::shared_ptr<const Model> model_;
  const Precision precision_;
  const MemoryPlan memory_;                   // of a pass, where none is longer
  const DeviceSet devices_;                   // that could hold it
  std::vector<std::shared_ptr<Lane>> lanes_;  // by device

  mutable absl::Mutex mutex_;
  VersionQueue queue_ ABSL_GUARDED_BY(mutex_);
  int64_t arrivals_ ABSL_GUARDED_BY(mutex_) = 0;  // requests so far
  size_t holds_ ABSL_GUARDED_BY(mutex_) = 0;
  ModelHandle version_ ABSL_GUARDED_BY(mutex_);  // while there are holds
  // Whose memory others had, until that time.
  DeviceSet refused_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time refused_until_ ABSL_GUARDED_BY(mutex_);
  absl::Time pass_waits_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Of full passes, one lane's; 0 before the first.
  double rows_per_second_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_VERSION_BATCHER_H_
