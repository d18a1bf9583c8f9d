// Continuous batching: whenever a device is free, what waits for a model
// version there is packed into one forward pass: whole sequences, chunks of
// long ones, single steps of many sessions.
#ifndef RECURVE_ENGINE_SERVE_BATCHER_H_
#define RECURVE_ENGINE_SERVE_BATCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/batch_runner.h"
#include "engine/serve/call_control.h"
#include "engine/serve/carried_state.h"
#include "engine/serve/model_version.h"
#include "engine/serve/serving_statistics.h"

namespace recurve {

struct BatcherRequest {
  ModelHandle version;
  SequenceBatch batch;  // passes Model::CheckBatch without empty sequences
  // [B], each used by no other request; of the version's carry_size. Empty:
  // from zeros, and nothing is kept.
  std::vector<std::shared_ptr<CarriedState>> states;
  // Starts from the carries before the last request that was committed, and
  // commits nothing. REQUIRES: can_replay() of all states.
  bool replay = false;
  bool want_output = true;
  bool want_hidden = false;
  // On devices' threads, for disjoint rows at the same time; where a pooling
  // model is cut in time, again with later outputs of the same sequence, the
  // last of which holds. An error ends the request.
  std::function<absl::Status(const ChunkRows&)> consume;
  // Looked at before each pass, and from time to time while it waits.
  CallControl control;
  int priority = 1;  // 1 goes first
  // Who it is for: requests of different flows share a device equally.
  std::string flow;
  // That the caller keeps for its results, for max_enqueued_bytes.
  int64_t result_bytes = 0;
  // Once, on any thread, or before Enqueue returns. OK: all rows were consumed
  // and the states are committed. The first error otherwise, and the states are
  // as they were.
  std::function<void(absl::Status)> done;
};

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

 private:
  BatchRunner& runner_;
  const Options options_;
  ServingStatistics statistics_;
  absl::Mutex mutex_;
  int64_t pending_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCHER_H_
