// Continuous batching: whenever a device is free, what waits for a model
// version there is packed into one forward pass: whole sequences, chunks of
// long ones, single steps of many sessions.
#ifndef RECURVE_ENGINE_SERVE_BATCHER_H_
#define RECURVE_ENGINE_SERVE_BATCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/serve/batch_runner.h"
#include "engine/serve/batcher_request.h"
#include "engine/serve/model_version.h"
#include "engine/serve/serving_statistics.h"
#include "engine/serve/state_pool.h"
#include "engine/serve/version_batcher.h"
#include "engine/serve/version_queue.h"

namespace recurve {

// Thread-safe.
class Batcher {
 public:
  struct Options {
    // Of a pass. More rows use the product library better; fewer let other
    // requests in sooner.
    int64_t max_batch_rows = 1024;
    int64_t max_batch_size = 4096;  // sequences
    // How long a pass that is not full may wait for more requests.
    absl::Duration batch_timeout;
    // Of one sequence in a pass while others wait.
    int64_t max_chunk_rows = 256;
    // Activations of one pass: what is not cut in time comes near it.
    int64_t max_arena_bytes = int64_t{4} << 30;
    // Requests waiting or under way, and their inputs and results.
    int64_t max_enqueued = 1024;
    int64_t max_enqueued_bytes = int64_t{1} << 30;
    // For measuring what packing is worth: a pass takes as many sequences as
    // fit at the length of the longest of them, and runs them at that length.
    // What padding would make wrong or too long is refused.
    bool pad_to_longest = false;
    std::function<absl::Time()> now = absl::Now;
  };

  // Shares the devices, and the models that are ready there, with `runner`,
  // which outlives it.
  Batcher(BatchRunner& runner, const Options& options);
  // Waits for every request.
  ~Batcher();

  // Returns at once. Errors, also by way of `done`: FailedPrecondition for
  // states of a model that cannot be cut in time; ResourceExhausted, with a
  // RetryHint, beyond the limits and where the deadline cannot be met behind
  // what waits already; without one, with the numbers, for a sequence that no
  // device can hold; what CallControl says.
  void Enqueue(BatcherRequest request);

  ServingStatistics& statistics() { return statistics_; }

  // What the batcher's own thread does now and then.
  void Poll();

 private:
  struct Entry {  // tells a version from a later one at the same address
    std::weak_ptr<const ModelVersion> version;
    std::shared_ptr<VersionBatcher> batcher;
  };

  absl::Status Check(const BatcherRequest& request) const;
  absl::StatusOr<std::shared_ptr<VersionBatcher>> BatcherOf(
      const ModelHandle& version);
  absl::Status Enter(int64_t bytes);
  void Refuse(const BatcherRequest& request, const absl::Status& status);
  void Leave(const PendingRequest& request);
  void Answered();
  void PollAt(absl::Time time);
  void RunTimer();

  const Options options_;
  const std::vector<std::unique_ptr<StatePool>> pools_;  // by device
  const BatchingContext context_;
  ServingStatistics statistics_;

  absl::Mutex mutex_;
  absl::flat_hash_map<const ModelVersion*, Entry> batchers_
      ABSL_GUARDED_BY(mutex_);
  int64_t enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t enqueued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;

  absl::Mutex timer_mutex_;
  absl::CondVar timer_changed_;
  absl::Time next_poll_ ABSL_GUARDED_BY(timer_mutex_) = absl::InfiniteFuture();
  bool stopping_ ABSL_GUARDED_BY(timer_mutex_) = false;
  std::thread timer_;  // last: it uses all the others
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCHER_H_
