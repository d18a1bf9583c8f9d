// What a running job says of itself: events in the store, each step once, and
// the metrics files that follow them.
#ifndef RECURVE_ENGINE_JOBS_JOB_REPORTER_H_
#define RECURVE_ENGINE_JOBS_JOB_REPORTER_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/jobs/job_control.h"
#include "engine/jobs/job_store.h"
#include "engine/jobs/metrics_files.h"

namespace recurve {

// For one thread. A store that fails for now (a full disk) is asked again every
// `retry_delay` until it keeps what it is told; Cancelled once the job is told
// to stop meanwhile.
class JobReporter {
 public:
  // `folder` is the job's own. All else outlives this.
  JobReporter(JobStore& store, const Job& job, const std::string& folder,
              JobControl& control, absl::Duration retry_delay);

  // What was reported before, in events from `first_event` on, is not reported
  // again. Before all others but Keep and Warn.
  absl::Status Open(int64_t first_event);

  absl::Status Report(const JobMetrics& metrics,
                      const std::vector<DeviceTime>& devices);
  absl::Status ReportEvaluation(const JobEvaluation& evaluation, bool best);
  absl::Status ReportCheckpoint(const JobCheckpoint& checkpoint);
  // Not again what stands among those events word for word.
  absl::Status Warn(absl::string_view text);
  // Why the run can't begin yet: as the job's cause, and once as a warning.
  absl::Status ReportWait(absl::string_view cause);
  absl::StatusOr<Job> SetState(JobState state, absl::string_view cause,
                               const std::function<void(Job&)>& change);

  // Makes the change again and again, until it succeeds or would fail always.
  absl::Status Keep(const std::function<absl::Status()>& change);

  // From now on everything is reported again. The number of the next event.
  absl::StatusOr<int64_t> RollBack();

  // Brings the metrics files up to date; a warning, once, where they cannot be
  // written.
  void SyncFiles();
  // The same, and on disk. Nothing is reported after it.
  void FinishFiles();

 private:
  void NoteFiles(const absl::Status& status);
  absl::Status Scan();

  JobStore& store_;
  const std::string id_;
  JobControl& control_;
  const absl::Duration retry_delay_;
  MetricsFiles files_;
  bool files_failed_ = false;
  bool waits_ = false;
  int64_t next_event_ = 0;  // to be scanned
  int64_t reported_step_ = 0;
  int64_t evaluated_step_ = 0;
  std::set<std::string, std::less<>> warnings_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_REPORTER_H_
