// Refusing a job that no device can ever hold, before it is one.
#ifndef RECURVE_ENGINE_JOBS_JOB_FIT_H_
#define RECURVE_ENGINE_JOBS_JOB_FIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/data/dataset_store.h"
#include "engine/jobs/held_out.h"
#include "engine/schedule/device.h"
#include "engine/train/training_run.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// An uploaded dataset of no more bytes is read to find what the job needs.
inline constexpr int64_t kMaxBytesReadToFit = 4 << 20;

// ResourceExhausted, as FittingDevices or FittingDevicesBeside says it, if no
// device's budget holds the job: exactly that for a small uploaded dataset,
// otherwise by LeastSizes, so that nothing is refused that could run. OK for
// what only the start of the job can tell, and for what is wrong otherwise,
// which that start finds too. REQUIRES: CheckTrainSpec of `spec` is OK.
absl::Status CheckJobFits(const v1::TrainSpec& spec, DevicePool& devices,
                          const DatasetStore& datasets, ModelExchange& models,
                          const HeldOutPlans& evaluations,
                          int64_t max_parameters);

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_FIT_H_
