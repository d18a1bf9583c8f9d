// Jobs and events as bytes (job_record.proto), and back without any change.
#ifndef RECURVE_ENGINE_JOBS_JOB_RECORD_H_
#define RECURVE_ENGINE_JOBS_JOB_RECORD_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/jobs/job.h"

namespace recurve {

// Times are kept to the nanosecond, which is as fine as clocks are.
std::string JobToBytes(const Job& job);
std::string EventToBytes(const JobEvent& event);

// DataLoss for what are not such bytes.
absl::StatusOr<Job> JobFromBytes(const std::string& bytes);
absl::StatusOr<JobEvent> EventFromBytes(const std::string& bytes);

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_RECORD_H_
