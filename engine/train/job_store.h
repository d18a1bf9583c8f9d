// Job records and their events: who submitted what, how it went.
#ifndef RECURVE_ENGINE_TRAIN_JOB_STORE_H_
#define RECURVE_ENGINE_TRAIN_JOB_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/train/job.h"

namespace recurve {

struct JobPage {
  std::vector<Job> jobs;        // newest first
  std::string next_page_token;  // empty: that was all
};

// Keeps a notification going; destroyed, it waits for a call that is running
// (so never destroy it, nor call what takes a lock the callback wants, from
// inside the callback).
class JobSubscription {
 public:
  virtual ~JobSubscription() = default;
};

// Thread-safe. A change is kept (on disk, where the store has one) before the
// call that made it returns. Ids come without "jobs/"; NotFound for unknown
// ones.
class JobStore {
 public:
  static constexpr int kMaxPageSize = 1000;  // page_size 0 means 100
  static constexpr int kMaxEventsAtOnce = 1000;

  virtual ~JobStore() = default;

  // A new job in state QUEUED, with that as event 0. With a request id seen
  // before, the job it made is returned if the spec is the same (`*created`
  // false), else InvalidArgument. AlreadyExists for an id in use;
  // ResourceExhausted when full.
  virtual absl::StatusOr<Job> Create(const JobRequest& request,
                                     bool* created) = 0;
  virtual absl::StatusOr<Job> Get(absl::string_view id) const = 0;
  // The job that Create made for this request id.
  virtual absl::StatusOr<Job> FindRequest(
      absl::string_view request_id) const = 0;
  // InvalidArgument for a negative size or a token that List did not give.
  virtual absl::StatusOr<JobPage> List(int page_size,
                                       absl::string_view page_token) const = 0;

  // Sets the state, its cause and, where they begin or end something, its
  // times, after `change` (may be null) edited the record's numbers; appends
  // the record as an event. FailedPrecondition, with both states named, if the
  // table does not allow it.
  virtual absl::StatusOr<Job> SetState(
      absl::string_view id, JobState state, absl::string_view cause,
      const std::function<void(Job&)>& change = nullptr) = 0;
  // Appends a metrics event and takes its step and loss, and the totals of the
  // devices, into the record. Beyond the store's limit of events a job the
  // record is still updated.
  virtual absl::Status Report(absl::string_view id, const JobMetrics& metrics,
                              std::vector<DeviceTime> devices) = 0;
  // Appends it as an event; the best so far is taken into the record. The limit
  // of events as above.
  virtual absl::Status ReportEvaluation(absl::string_view id,
                                        const JobEvaluation& evaluation,
                                        bool best) = 0;
  // Appends it as an event and takes its step into the record; the limit of
  // events as above.
  virtual absl::Status ReportCheckpoint(absl::string_view id,
                                        const JobCheckpoint& checkpoint) = 0;
  virtual absl::Status Warn(absl::string_view id, absl::string_view text) = 0;

  // Events from number `first` on that are there now, at most `limit` (0 and
  // what is above mean kMaxEventsAtOnce). Where the job has ended and none is
  // left, the answer is empty.
  virtual absl::StatusOr<std::vector<JobEvent>> Events(absl::string_view id,
                                                       int64_t first,
                                                       int limit) const = 0;
  // Calls `notify` soon after each new event, and once at the beginning, from
  // any thread, one call at a time; it must not block nor call the store's
  // changing functions. Reading by Events after each call misses nothing.
  virtual absl::StatusOr<std::unique_ptr<JobSubscription>> Subscribe(
      absl::string_view id, std::function<void()> notify) = 0;
};

struct JobStoreLimits {
  int64_t max_jobs = 100'000;
  // State changes are always kept, all others up to here; a last
  // warning says that there will be no more.
  int64_t max_events_per_job = 100'000;
};

// Lives and dies with the process.
std::unique_ptr<JobStore> NewMemoryJobStore(const JobStoreLimits& limits = {});

// Blocks until event `number` is there, the job has ended or `deadline` passes;
// true in the first case.
absl::StatusOr<bool> WaitForEvent(JobStore& store, absl::string_view id,
                                  int64_t number, absl::Time deadline);
// Blocks until the job has ended or `deadline` passes (DeadlineExceeded).
absl::StatusOr<Job> WaitForEnd(JobStore& store, absl::string_view id,
                               absl::Time deadline);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_JOB_STORE_H_
