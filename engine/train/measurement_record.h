// Evaluations and device times as records on disk keep them, exactly.
#ifndef RECURVE_ENGINE_TRAIN_MEASUREMENT_RECORD_H_
#define RECURVE_ENGINE_TRAIN_MEASUREMENT_RECORD_H_

#include "engine/train/job.h"
#include "engine/train/measurement_record.pb.h"
#include "engine/train/step_result.h"

namespace recurve {

records::Evaluation ToRecord(const JobEvaluation& evaluation);
records::DeviceTime ToRecord(const DeviceTime& time);

JobEvaluation FromRecord(const records::Evaluation& record);
DeviceTime FromRecord(const records::DeviceTime& record);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_MEASUREMENT_RECORD_H_
