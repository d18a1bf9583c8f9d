// Runs a batch forward on the devices: cut into chunks, the chunks as serving
// tasks, the rows handed to the caller as they come. What comes out does not
// depend on the cut, on the devices or on what else runs.
//
// Each device that takes part makes room for the model and for the arena of its
// largest pass before the first, and keeps both at least until its last. Where
// models in use leave no room, runs wait in line, first come first served.
#ifndef RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_
#define RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/model/executor.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/device.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/call_control.h"
#include "engine/serve/cut.h"
#include "engine/serve/executor_cache.h"
#include "engine/serve/model_version.h"
#include "kernels/tensor.h"

namespace recurve {

// Host memory, for the time of the call it is given to.
struct ChunkRows {
  Chunk chunk;
  // First row of `output` in the batch's outputs: the chunk's first sequence
  // where the model pools, else its first row.
  int64_t first_output_row = 0;
  Matrix<const float> output;  // absent unless wanted
  Matrix<const float> hidden;  // [chunk.num_rows, C]; absent unless wanted
};

struct BatchRun {
  ModelHandle version;
  SequenceBatch batch;  // passes Model::CheckBatch without empty sequences
  // [B, state_size] before the batch as the call before left it (BeginCall is
  // applied here); empty = zeros.
  std::vector<float> state;
  int64_t call_rows = 0;  // as CutOptions; 0 for models that are not cut
  bool want_output = true;
  bool want_hidden = false;
  bool want_state = false;
  // On devices' threads, for disjoint rows at the same time; where a pooling
  // model is cut in time, again with later outputs of the same sequence, the
  // last of which holds. An error ends the run.
  std::function<absl::Status(const ChunkRows&)> consume;
  // Looked at before each chunk.
  CallControl control;
  // Once, on a device's thread (or in Start if nothing could be started): the
  // states after the batch if wanted. The first error wins; no chunk runs any
  // more.
  std::function<void(absl::StatusOr<std::vector<float>> state)> done;
};

// Thread-safe.
class BatchRunner {
 public:
  struct Options {
    // Rows in one forward pass, fewer where no device's budget holds as many;
    // longer sequences are cut in time if the model allows it.
    int64_t max_batch_rows = 1024;
    // Activations of one pass on a device. Only what is not cut in time
    // (bidirectional models, mean and max pooling) comes near it.
    int64_t max_arena_bytes = int64_t{4} << 30;
  };

  // `devices` outlives the runner.
  BatchRunner(DevicePool& devices, const Options& options);
  // Waits for every run that was started.
  ~BatchRunner();

  // Whether a sequence of the model may be cut in time.
  static bool CutsInTime(const Model& model);

  // Returns at once. The run ends with ResourceExhausted, with the numbers, if
  // the batch cannot be cut small enough for any device's budget, and if what
  // others than models in use hold leaves no room.
  void Start(BatchRun run);
  // Waits for the states; not from a device's thread. run.done is not used.
  absl::StatusOr<std::vector<float>> RunAndWait(BatchRun run);

  // Frees what the devices keep for this version once no run uses it: a run
  // under way could not read the weights again.
  void Drop(const ModelVersion& version);

  // The runs in line for a device's memory.
  std::vector<WaitingRequest> Waiting(int rank) const;

 private:
  class Progress;
  struct Place {  // in a run's chains
    size_t chain = 0;
    size_t chunk = 0;
  };
  // How a run is cut, what that needs on a device, and which devices could
  // hold as much.
  struct Plan {
    std::vector<Chain> chains;
    MemoryPlan memory;
    std::vector<int> ranks;
  };
  // What one device does of a run.
  struct Part {
    std::shared_ptr<Progress> progress;
    int rank = 0;
    // Once it has memory.
    ExecutorCache::Slot* slot = nullptr;
    Place place;
    // While it has not.
    absl::Time since;
    std::string reason;
  };
  enum class Entry { kBegins, kWaits, kIsGone };

  absl::StatusOr<Plan> MakePlan(const BatchRun& run) const;
  int64_t PassRows(const ModelVersion& version) const;
  std::vector<int> RanksFor(const ModelVersion& version,
                            const MemoryPlan& memory) const;
  absl::Status TooLarge(const ModelVersion& version,
                        const MemoryPlan& memory) const;

  // On the device's thread.
  void Arrive(Part part, Backend& backend);
  Entry TryEnter(Part& part, Backend& backend);
  void RunNext(Part part, Backend& backend);
  void EnqueueNext(Part part);
  absl::Status RunChunk(const Part& part, Backend& backend);
  void AdmitWaiting(int rank, Backend& backend);
  void DropUnwanted(int rank);
  void GiveUp(const Part& part, const absl::Status& status);
  void Finish(Progress& progress);

  void Release(const ModelVersion& version);  // by a run that has ended
  void DropNow(const ModelVersion& version);

  struct Use {  // of a version by runs
    int64_t runs = 0;
    bool drop = false;  // after the last of them
  };

  DevicePool& devices_;
  const Options options_;
  std::vector<std::unique_ptr<ExecutorCache>> caches_;  // by device
  mutable absl::Mutex mutex_;
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<const ModelVersion*, Use> uses_ ABSL_GUARDED_BY(mutex_);
  // By device; changed by its thread alone.
  std::vector<std::deque<Part>> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_
