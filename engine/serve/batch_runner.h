// Runs a batch forward on the devices: cut into chunks, the chunks as serving
// tasks, the rows handed to the caller as they come. What comes out does not
// depend on the cut, on the devices or on what else runs.
//
// Each device that takes part makes room for the model and for the arena of its
// largest pass before the first, and keeps both at least until its last. Where
// models in use leave no room, runs wait in line, first come first served; not
// those that bring memory of their own. Where training leaves none, another
// device is asked.
#ifndef RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_
#define RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/executor_cache.h"
#include "engine/serve/model_version.h"
#include "engine/serve/run_plan.h"
#include "engine/serve/run_progress.h"
#include "kernels/backend.h"

namespace recurve {

// Thread-safe.
class BatchRunner {
 public:
  using Options = RunLimits;

  // `devices` outlives the runner.
  BatchRunner(DevicePool& devices, const Options& options);
  // Waits for every run that was started.
  ~BatchRunner();

  // Returns at once. The run ends with ResourceExhausted, with the numbers, if
  // the batch cannot be cut small enough for any device's budget, and if what
  // others than models in use hold leaves no room on any. With memory of its
  // own it is not refused: what is held is one of its PassMemories.
  void Start(BatchRun run);
  // What a run of this batch could do with, most first.
  std::vector<MemoryPlan> PassMemories(
      const Model& model, absl::Span<const int64_t> cu_seqlens) const;
  // Waits for the states; not from a device's thread. run.done is not used.
  absl::StatusOr<std::vector<float>> RunAndWait(BatchRun run);

  // Frees what the devices keep for this version once no run uses it: a run
  // under way could not read the weights again.
  void Drop(const ModelVersion& version);

  // The runs in line for a device's memory.
  std::vector<WaitingRequest> Waiting(int rank) const;

 private:
  // What one device does of a run.
  struct Part {
    std::shared_ptr<RunProgress> progress;
    int rank = 0;
    // Once it has memory.
    ExecutorCache::Slot* slot = nullptr;
    RunProgress::Place place;
    // While it has not.
    absl::Time since;
    std::string reason;
  };
  // kWaitsForRelease: for memory that the device's own tasks are about to free.
  enum class Entry { kBegins, kWaits, kWaitsForRelease, kIsGone };

  void Send(Part part);
  // On the device's thread.
  void Arrive(Part part, Backend& backend);
  Entry TryEnter(Part& part, Backend& backend);
  void RunNext(Part part, Backend& backend);
  void EnqueueNext(Part part);
  void EnqueueAdmission(int rank);
  void Refuse(Part part, const absl::Status& status);
  void AdmitWaiting(int rank, Backend& backend);
  void DropUnwanted(int rank);
  void GiveUp(const Part& part, const absl::Status& status);
  void Finish(RunProgress& progress);

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
  std::vector<char> admits_later_;  // each its device's thread's
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_
