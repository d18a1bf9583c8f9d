// Evaluations as records on disk keep them, exactly.
#ifndef RECURVE_ENGINE_JOBS_EVALUATION_RECORD_H_
#define RECURVE_ENGINE_JOBS_EVALUATION_RECORD_H_

#include "engine/jobs/evaluation_record.pb.h"
#include "engine/jobs/job.h"

namespace recurve {

records::Evaluation ToRecord(const JobEvaluation& evaluation);
JobEvaluation FromRecord(const records::Evaluation& record);

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_EVALUATION_RECORD_H_
