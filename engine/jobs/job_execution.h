// One run of a training job, from VALIDATING on.
#ifndef RECURVE_ENGINE_JOBS_JOB_EXECUTION_H_
#define RECURVE_ENGINE_JOBS_JOB_EXECUTION_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"
#include "engine/data/dataset_store.h"
#include "engine/jobs/held_out.h"
#include "engine/jobs/job.h"
#include "engine/jobs/job_control.h"
#include "engine/jobs/job_store.h"
#include "engine/schedule/device.h"
#include "engine/train/training_run.h"

namespace recurve {

absl::Duration SteadyClock();

// What all jobs run on. Everything outlives the jobs.
struct JobEnvironment {
  DevicePool& devices;
  JobStore& jobs;
  const DatasetStore& datasets;
  ModelExchange& models;
  HeldOut held_out;
  int64_t max_parameters;  // of a new model
  // directory/ID is a job's own: checkpoints/, metrics.csv and TensorBoard's
  // event files.
  std::string directory;
  // Of validation or held-out data: what `evaluate` takes.
  int64_t max_evaluation_rows = int64_t{1} << 26;
  // Since some moment, steady.
  std::function<absl::Duration()> clock = SteadyClock;
  // Between attempts to record how a run ended.
  absl::Duration retry_delay = absl::Seconds(1);
};

// Runs `job`, which is VALIDATING, on the calling thread: from its newest
// checkpoint if its folder has one that reads, else from the beginning. Leaves
// it in the store as SUCCEEDED, FAILED with the cause, CANCELLED with the cause
// of CANCELLING, PAUSED, or, after a shutdown, QUEUED; the last two with a
// checkpoint of all that was done. Only where the store cannot keep that until
// a shutdown is the job left as it was. Never throws.
void ExecuteJob(const JobEnvironment& environment, const Job& job,
                JobControl& control);

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_EXECUTION_H_
