// Decides which job runs when, and what pause, resume, cancel, restart and
// shutdown make of it. How a job is run is none of its business.
//
// A job whose runs take the server down must not do so for ever: the record
// counts the starts in a row of which none came to a later checkpoint than the
// last. A run that returns, and a resume, end the row. After
// kMaxFruitlessStarts a job that a crash has interrupted is not queued again
// but paused.
//
// docs/jobs.md has the diagram of the states.
#ifndef RECURVE_ENGINE_JOBS_JOB_DISPATCHER_H_
#define RECURVE_ENGINE_JOBS_JOB_DISPATCHER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/jobs/job_control.h"
#include "engine/jobs/job_store.h"

namespace recurve {

// Thread-safe. Every change is in the store before the call that made it
// returns.
class JobDispatcher {
 public:
  // One run of a job that is VALIDATING, on the calling thread; as ExecuteJob.
  using Execute = std::function<void(const Job& job, JobControl& control)>;

  static constexpr int kMaxFruitlessStarts = 10;

  struct Options {
    int max_running = 1;
    int max_queued = 1000;
    // Between attempts to write to or read from a store that fails.
    absl::Duration retry_delay = absl::Seconds(1);
  };

  // `jobs` outlives the dispatcher.
  JobDispatcher(const Options& options, JobStore& jobs, Execute execute);
  ~JobDispatcher();  // Shutdown

  // Takes up the jobs that an earlier process left unfinished, and begins. One
  // that the store does not let be taken up is tried again, as is one that it
  // does not let begin; the others go on meanwhile. Those whose records are
  // damaged are left alone: returns their errors. Once, before anything else.
  absl::StatusOr<std::vector<absl::Status>> Start();

  // As JobStore::Create; ResourceExhausted for a full queue, Unavailable after
  // Shutdown.
  absl::StatusOr<Job> Submit(const JobRequest& request);

  // Returns the job as it then is; a running job stops at its next micro-batch,
  // which the caller need not wait for. FailedPrecondition as AfterRequest,
  // ResourceExhausted for a resume into a full queue.
  absl::StatusOr<Job> Change(absl::string_view id, JobChange change);

  // As JobStore::Delete, once the run that has ended the job is over. Then
  // calls `remove_files`, before there can be another job of that id.
  absl::Status Delete(absl::string_view id,
                      const std::function<void()>& remove_files);

  // Adds to the causes of those that are QUEUED what they wait for.
  void Explain(absl::Span<Job> jobs) const;

  // Starts nothing more, tells all runs to save and stop, and waits for them.
  // What is not at its end goes on when the next dispatcher starts.
  void Shutdown();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_DISPATCHER_H_
