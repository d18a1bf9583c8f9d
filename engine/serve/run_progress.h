// A run on its way: what is done of it and what is left.
#ifndef RECURVE_ENGINE_SERVE_RUN_PROGRESS_H_
#define RECURVE_ENGINE_SERVE_RUN_PROGRESS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/cut.h"
#include "engine/serve/run_plan.h"

namespace recurve {

// Parts, at most one a device, share the work: each waits for memory, takes
// chain after chain, and ends. Thread-safe. Chunks of different chains touch
// disjoint rows of the carries.
class RunProgress {
 public:
  struct Place {  // in the run's chains
    size_t chain = 0;
    size_t chunk = 0;
  };

  // One part for each of these devices; the spare ones have none to begin with.
  RunProgress(BatchRun given, RunPlan made, int parts,
              std::vector<int> spare_ranks);

  const Chunk& ChunkAt(Place place) const {
    return plan.chains[place.chain][place.chunk];
  }
  // The chunk's part of the carries, absent if all is zeros and stays unused.
  absl::Span<float> CarriesOf(const Chunk& chunk);
  // [B, state_size] as they are now, if anything is carried. Once, at the end.
  std::vector<float> TakeStates();

  // The first error so far; in Check the caller's wish to stop is one.
  absl::Status status();
  absl::Status Check();
  // Whether a part that waits is still wanted.
  bool HasWork();

  // The first place of a part that has its memory; false if there is nothing
  // left for it.
  bool Begin(Place& place);
  // Where the part goes on that did the chunk at `place` with this result;
  // false if it is finished, `*last` if the run is.
  bool Advance(Place& place, const absl::Status& status, bool* last);
  // For a part that its device refuses: another that could have it.
  std::optional<int> TakeSpareRank();
  // A part ends before it began; the others do its work. True if there are none
  // and the run ends with this status.
  bool GiveUp(const absl::Status& status);

  BatchRun run;
  const RunPlan plan;

 private:
  bool HasWorkLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return status_.ok() && next_chain_ < plan.chains.size();
  }

  std::vector<float> carries_;  // [B, carry_size], or empty

  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_);  // parts for memory
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_chain_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int> spare_ranks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_RUN_PROGRESS_H_
