// metrics.csv and an event file of TensorBoard's in a job's folder, following
// the job's events.
#ifndef RECURVE_ENGINE_JOBS_METRICS_FILES_H_
#define RECURVE_ENGINE_JOBS_METRICS_FILES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/file_descriptor.h"
#include "engine/jobs/job_store.h"
#include "engine/jobs/metrics_format.h"

namespace recurve {

// For one thread, and the only one to write these files.
class MetricsFiles {
 public:
  // `folder` must be there at Sync. `store` outlives this.
  MetricsFiles(const JobStore& store, const Job& job,
               const std::string& folder);

  // Brings the files up to the events that the store now has. The first time,
  // and after an error, both are written anew from all of them, whole or not at
  // all; else what is new is appended. (So what a crash left half appended is
  // gone with the next run.)
  absl::Status Sync();
  // The same, and makes them last.
  absl::Status Finish();

 private:
  absl::Status Rewrite();
  absl::Status Append();
  absl::StatusOr<MetricsText> NewText();

  const JobStore& store_;
  const std::string job_id_;
  const absl::Time create_time_;
  const std::string csv_path_;
  const std::string tensorboard_path_;
  std::optional<MetricsFormat> format_;  // none: to be written anew
  int64_t next_event_ = 0;
  FileDescriptor csv_;
  FileDescriptor tensorboard_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_METRICS_FILES_H_
