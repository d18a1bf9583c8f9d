// One training job, from VALIDATING to its end.
#ifndef RECURVE_ENGINE_TRAIN_JOB_EXECUTION_H_
#define RECURVE_ENGINE_TRAIN_JOB_EXECUTION_H_

#include <atomic>
#include <cstdint>

#include "engine/schedule/device.h"
#include "engine/train/dataset_store.h"
#include "engine/train/held_out.h"
#include "engine/train/job.h"
#include "engine/train/job_store.h"
#include "engine/train/training_run.h"

namespace recurve {

// What all jobs run on. Everything outlives the jobs.
struct JobEnvironment {
  DevicePool& devices;
  JobStore& jobs;
  const DatasetStore& datasets;
  ModelExchange& models;
  HeldOutEvaluator evaluate;
  int64_t max_parameters;  // of a new model
};

// Runs `job`, which is VALIDATING, on the calling thread and brings it to an
// end in the store: SUCCEEDED, FAILED with the cause, or CANCELLED, with the
// cause of CANCELLING, once `cancelled` is true. Whoever sets that has made the
// job CANCELLING before. Never throws.
void ExecuteJob(const JobEnvironment& environment, const Job& job,
                const std::atomic<bool>& cancelled);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_JOB_EXECUTION_H_
