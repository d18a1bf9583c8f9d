// Runs a batch forward on the devices: cut into chunks, the chunks as serving
// tasks, the rows handed to the caller as they come. What comes out does not
// depend on the cut, on the devices or on what else runs.
//
// A device that takes part is one piece of work to ModelAdmission. Where
// training leaves it no memory, another device is asked.
#ifndef RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_
#define RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/model_admission.h"
#include "engine/serve/model_version.h"
#include "engine/serve/run_plan.h"
#include "engine/serve/run_progress.h"

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

  // What is in line for a device's memory.
  std::vector<WaitingRequest> Waiting(int rank) const;

  // By which whatever else runs passes on these devices must come too.
  ModelAdmission& admission() { return admission_; }

 private:
  class Part;  // what one device does of a run

  void Send(std::shared_ptr<RunProgress> progress, int rank);
  void Finish(RunProgress& progress);

  const Options options_;
  absl::Mutex mutex_;
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  ModelAdmission admission_;  // goes first: devices may still be in it
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCH_RUNNER_H_
