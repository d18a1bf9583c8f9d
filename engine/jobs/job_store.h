// Job records and their events: who submitted what, how it went.
#ifndef RECURVE_ENGINE_JOBS_JOB_STORE_H_
#define RECURVE_ENGINE_JOBS_JOB_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/sqlite.h"
#include "engine/jobs/job.h"
#include "engine/jobs/job_listeners.h"

namespace recurve {

struct JobPage {
  std::vector<Job> jobs;        // newest first
  std::string next_page_token;  // empty: that was all
};

struct JobStoreLimits {
  int64_t max_jobs = 100'000;
  // State changes are always kept, all others up to here; a last warning says
  // that there will be no more.
  int64_t max_events_per_job = 100'000;
};

// Thread-safe. A change is on disk before the call that made it returns; after
// an error nothing has changed (but for a process that ends before its next
// change, which may then find it made). Ids come without "jobs/"; NotFound for
// unknown ones. An ended job's last event is that it ended: FailedPrecondition
// for what would add another. DataLoss for a job whose record is damaged. All
// calls may also fail as SqliteStatus says.
class JobStore {
 public:
  static constexpr int kMaxPageSize = 1000;  // page_size 0 means 100
  static constexpr int kMaxEventsAtOnce = 1000;

  // An SQLite file, created if absent; ":memory:" lives and dies with the
  // store. DataLoss for a damaged file, FailedPrecondition for one of a newer
  // version of this program.
  static absl::StatusOr<std::unique_ptr<JobStore>> Open(
      const std::string& path, const JobStoreLimits& limits = {});
  ~JobStore();

  // A new job in state QUEUED, with that as event 0. With a request id seen
  // before, the job it made is returned if the spec is the same (`*created`
  // false), else InvalidArgument. AlreadyExists for an id in use;
  // ResourceExhausted when full.
  absl::StatusOr<Job> Create(const JobRequest& request, bool* created);
  absl::StatusOr<Job> Get(absl::string_view id) const;
  // The job that Create made for this request id.
  absl::StatusOr<Job> FindRequest(absl::string_view request_id) const;
  // InvalidArgument for a negative size or a token that List did not give. One
  // whose record is damaged is here as FAILED, with that as the cause.
  absl::StatusOr<JobPage> List(int page_size,
                               absl::string_view page_token) const;
  // Removes one that has ended, or whose record is damaged, with its events;
  // its request id is forgotten. FailedPrecondition for others. Whoever keeps
  // files of it finds its id in Deleted, also after a crash, until
  // ForgetDeleted or a new job of that id.
  absl::Status Delete(absl::string_view id);
  absl::StatusOr<std::vector<std::string>> Deleted() const;
  absl::Status ForgetDeleted(absl::string_view id);
  // All that have not ended, in the order in which they were submitted.
  absl::StatusOr<std::vector<absl::StatusOr<Job>>> Unfinished() const;

  // Sets the state, its cause and, where they begin or end something, its
  // times, after `change` (may be null) edited the record's numbers; appends
  // the record as an event. FailedPrecondition, with both states named, if the
  // table does not allow it.
  absl::StatusOr<Job> SetState(
      absl::string_view id, JobState state, absl::string_view cause,
      const std::function<void(Job&)>& change = nullptr);
  // Edits the record's numbers; not the id, the spec, the state, nor times. No
  // event.
  absl::StatusOr<Job> Change(absl::string_view id,
                             const std::function<void(Job&)>& change);
  // Appends a metrics event and takes its step and loss, and the totals of the
  // devices, into the record. Beyond the store's limit of events a job the
  // record is still updated.
  absl::Status Report(absl::string_view id, const JobMetrics& metrics,
                      std::vector<DeviceTime> devices);
  // Appends it as an event; the best so far is taken into the record. The limit
  // of events as above.
  absl::Status ReportEvaluation(absl::string_view id,
                                const JobEvaluation& evaluation, bool best);
  // Appends it as an event and takes its step into the record, where a later
  // one than the last ends the row of fruitless starts; the limit of events as
  // above.
  absl::Status ReportCheckpoint(absl::string_view id,
                                const JobCheckpoint& checkpoint);
  absl::Status Warn(absl::string_view id, absl::string_view text);

  // Events from number `first` on that are there now, at most `limit` (0 and
  // what is above mean kMaxEventsAtOnce). Where the job has ended and none is
  // left, the answer is empty.
  absl::StatusOr<std::vector<JobEvent>> Events(absl::string_view id,
                                               int64_t first, int limit) const;
  // Calls `notify` soon after each new event, and once at the beginning, from
  // any thread, one call at a time; it must not block nor call the store's
  // changing functions. Reading by Events after each call misses nothing.
  absl::StatusOr<std::unique_ptr<JobSubscription>> Subscribe(
      absl::string_view id, std::function<void()> notify);

 private:
  // A job's row.
  struct Row {
    int64_t sequence = 0;  // of submission
    int64_t events = 0;    // how many it has
    bool full = false;     // only states are still kept
    Job job;
  };
  using What = decltype(JobEvent::what);

  JobStore(SqliteDatabase database, const JobStoreLimits& limits);
  absl::Status CreateTables() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The row where `column`, an SQL name, has that value.
  absl::StatusOr<Row> Find(const char* column, absl::string_view value) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Row> FindId(absl::string_view id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> UnusedId() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The number that an SQL query answers with.
  absl::StatusOr<int64_t> Number(absl::string_view query) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Execute(absl::string_view sql, absl::string_view id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckNew(const JobRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> Insert(const JobRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Save(const Row& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(What what, Row& row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same within the limit of events.
  absl::Status AppendLimited(What what, Row& row)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Edits the record and appends events in one transaction. `edit` runs with
  // the lock held.
  absl::StatusOr<Job> Update(absl::string_view id,
                             const std::function<absl::Status(Row&)>& edit);
  // Edits the record, appends an event within the limit, tells the listeners.
  absl::Status AppendEvent(absl::string_view id, What what,
                           const std::function<void(Job&)>& edit);

  const JobStoreLimits limits_;
  mutable absl::Mutex mutex_;
  mutable SqliteDatabase db_ ABSL_GUARDED_BY(mutex_);
  absl::BitGen random_ ABSL_GUARDED_BY(mutex_);
  JobListeners listeners_;
};

// Blocks until event `number` is there, the job has ended or `deadline` passes;
// true in the first case.
absl::StatusOr<bool> WaitForEvent(JobStore& store, absl::string_view id,
                                  int64_t number, absl::Time deadline);
// Blocks until the job has ended or `deadline` passes (DeadlineExceeded).
absl::StatusOr<Job> WaitForEnd(JobStore& store, absl::string_view id,
                               absl::Time deadline);

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_STORE_H_
