// Training jobs: a bounded queue, a few at once, each on its own thread, all on
// the one pool of devices.
#ifndef RECURVE_ENGINE_JOBS_JOB_RUNNER_H_
#define RECURVE_ENGINE_JOBS_JOB_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/dataset_store.h"
#include "engine/jobs/held_out.h"
#include "engine/jobs/job_dispatcher.h"
#include "engine/jobs/job_execution.h"
#include "engine/jobs/job_store.h"
#include "engine/schedule/device.h"
#include "engine/train/training_run.h"

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
    int64_t max_parameters = int64_t{1} << 28;       // of a job's new model
    int64_t max_evaluation_rows = int64_t{1} << 26;  // as JobEnvironment
  };
  static constexpr int kMaxPriority = 100;      // and at least minus that
  static constexpr size_t kMaxOwnerBytes = 64;  // letters, digits, ".", "_",
                                                // "-", "@", "+"

  // All that is passed in outlives the runner.
  JobRunner(const Options& options, DevicePool& devices, JobStore& jobs,
            const DatasetStore& datasets, ModelExchange& models,
            HeldOut held_out);
  ~JobRunner();  // Shutdown

  // Takes up the jobs that an earlier process left unfinished, and begins.
  // Returns the errors of those whose records are damaged, which are left
  // alone. Once, before anything else.
  absl::StatusOr<std::vector<absl::Status>> Start();

  // Returns once the job is kept. InvalidArgument for a spec that can be seen
  // to be wrong at once, an owner or a priority that there cannot be,
  // AlreadyExists for an id of which the store knows no job but there is a
  // folder, ResourceExhausted for a full queue, Unavailable after Shutdown;
  // otherwise as JobStore::Create.
  absl::StatusOr<Job> Submit(const JobRequest& request);

  // Returns the job as it then is. A running job stops at its next micro-batch,
  // or once its data are read; a paused one has a checkpoint of all that it did
  // and goes on from there once it is resumed. Errors as
  // JobDispatcher::Change.
  absl::StatusOr<Job> Change(absl::string_view job_id, JobChange change);

  // Removes a job that has ended, its events and its folder. As
  // JobStore::Delete; files that cannot be removed are tried again by the next
  // Start.
  absl::Status Delete(absl::string_view job_id);

  // Adds to the causes of those that are QUEUED what they wait for.
  void Explain(absl::Span<Job> jobs) const;

  // Refuses new jobs, lets all that run save and go back to the queue, and
  // waits for them.
  void Shutdown();

 private:
  std::string FolderOf(absl::string_view id) const;
  // Takes the folder of a deleted job away: where it now lies aside; empty if
  // that failed.
  std::string TakeFolderAway(absl::string_view id);
  void SweepFolders();
  // A job of this id would go on from what an earlier one left there, whose
  // record is lost.
  absl::Status CheckFolder(const std::string& id) const;

  const JobEnvironment environment_;
  JobDispatcher dispatcher_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_RUNNER_H_
