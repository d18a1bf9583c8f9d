// Runs training jobs: a bounded queue, a few at once, each on its own thread,
// all on the one pool of devices.
#ifndef RECURVE_ENGINE_TRAIN_JOB_RUNNER_H_
#define RECURVE_ENGINE_TRAIN_JOB_RUNNER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/schedule/device.h"
#include "engine/train/dataset_store.h"
#include "engine/train/held_out.h"
#include "engine/train/job_store.h"
#include "engine/train/training_run.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// Thread-safe. A job that goes wrong ends as FAILED with its cause; it never
// harms the process or another job.
class JobRunner {
 public:
  struct Options {
    // Each job has a folder in it, by its id: checkpoints and metrics files.
    std::string directory;
    int max_running = 1;
    int max_queued = 1000;
    int64_t max_parameters = int64_t{1} << 28;  // of a job's new model
  };

  // All that is passed in outlives the runner.
  JobRunner(const Options& options, DevicePool& devices, JobStore& jobs,
            const DatasetStore& datasets, ModelExchange& models,
            HeldOutEvaluator evaluate);
  ~JobRunner();  // Shutdown

  // Returns once the job is kept. InvalidArgument for a spec that can be seen
  // to be wrong at once, ResourceExhausted for a full queue, Unavailable after
  // Shutdown; otherwise as JobStore::Create.
  absl::StatusOr<Job> Submit(const JobRequest& request);

  // A queued job is CANCELLED at once; a running one is CANCELLING and stops at
  // its next micro-batch, or once its data are read; an ended one stays as it
  // is. Returns the job as it then is.
  absl::StatusOr<Job> Cancel(absl::string_view job_id);

  // Refuses new jobs, cancels all that are queued or run ("server shut down")
  // and waits for them.
  void Shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_JOB_RUNNER_H_
