#include "engine/jobs/job_store.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/resource_id.h"
#include "engine/jobs/job_record.h"
#include "google/protobuf/util/message_differencer.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// PRAGMA user_version of what kTables and kDeletedTable make.
constexpr int64_t kSchema = 2;
constexpr char kTables[] = R"sql(
  CREATE TABLE jobs (
    sequence INTEGER PRIMARY KEY,  -- of submission: rises
    id TEXT NOT NULL UNIQUE,
    request_id TEXT UNIQUE,
    ended INTEGER NOT NULL,
    events INTEGER NOT NULL,       -- how many it has
    full INTEGER NOT NULL,         -- only states are still kept
    record BLOB NOT NULL           -- records.Job
  );
  CREATE INDEX unfinished ON jobs (sequence) WHERE ended = 0;
  CREATE TABLE events (
    job INTEGER NOT NULL REFERENCES jobs,
    number INTEGER NOT NULL,
    record BLOB NOT NULL,          -- records.Event
    PRIMARY KEY (job, number)
  ) WITHOUT ROWID;
)sql";
// What version 1 did not have.
constexpr char kDeletedTable[] = R"sql(
  CREATE TABLE deleted (
    id TEXT PRIMARY KEY            -- of a job whose files may still be there
  ) WITHOUT ROWID;
  PRAGMA user_version = 2;
)sql";

absl::Status NotFound(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("jobs/", id, " not found"));
}

absl::Status Damaged(absl::string_view id, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      "jobs/", id, ": ", what,
      " is damaged in jobs.db; put a copy of that back, or delete the job "
      "(recurve delete-job ",
      id, ") and submit it again"));
}

absl::StatusOr<Job> JobOf(absl::string_view id, const std::string& record) {
  auto job = JobFromBytes(record);
  return job.ok() ? job : Damaged(id, "its record");
}

// What lists show of such a job.
Job DamagedJob(absl::string_view id, const absl::Status& error) {
  Job job;
  job.id = std::string(id);
  job.state = JobState::kFailed;
  job.cause = error.ToString();
  return job;
}

// Page tokens are the sequence number of the last job given.
absl::StatusOr<int64_t> ParseToken(absl::string_view token) {
  int64_t sequence = INT64_MAX;
  if (token.empty()) return sequence;
  if (absl::SimpleAtoi(token, &sequence) && sequence >= 0) return sequence;
  return absl::InvalidArgumentError(
      absl::StrCat("page_token: \"", token, "\" is not one that was given"));
}

absl::Status CheckTransition(const Job& job, JobState state) {
  if (MayFollow(job.state, state)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("jobs/", job.id, " is ", JobStateName(job.state),
                   " and cannot become ", JobStateName(state)));
}

// Its last event is its end: who has seen that looks for no more.
absl::Status CheckNotEnded(const Job& job) {
  if (!HasEnded(job.state)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("jobs/", job.id, " is ", JobStateName(job.state),
                   " and gets no more events"));
}

absl::Status CheckEnded(const Job& job) {
  if (HasEnded(job.state)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "jobs/", job.id, " is ", JobStateName(job.state),
      " and cannot be deleted: cancel it first (recurve cancel ", job.id, ")"));
}

void Enter(JobState state, absl::string_view cause, absl::Time now, Job* job) {
  job->state = state;
  job->cause = std::string(cause);
  if (state == JobState::kValidating && !job->start_time) {
    job->start_time = now;
  }
  if (HasEnded(state)) job->end_time = now;
}

absl::Status CheckSameSpec(const Job& job, const JobRequest& request) {
  if (google::protobuf::util::MessageDifferencer::Equals(job.spec,
                                                         request.spec)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "request_id: \"", request.request_id, "\" was used for jobs/", job.id,
      ", which has another spec"));
}

}  // namespace

// --- Rows ---

absl::StatusOr<std::unique_ptr<JobStore>> JobStore::Open(
    const std::string& path, const JobStoreLimits& limits) {
  ASSIGN_OR_RETURN(SqliteDatabase database, SqliteDatabase::Open(path));
  auto store = absl::WrapUnique(new JobStore(std::move(database), limits));
  absl::MutexLock lock(&store->mutex_);
  RETURN_IF_ERROR(store->CreateTables());
  return store;
}

JobStore::JobStore(SqliteDatabase database, const JobStoreLimits& limits)
    : limits_(limits), db_(std::move(database)) {}
JobStore::~JobStore() = default;

absl::Status JobStore::CreateTables() {
  ASSIGN_OR_RETURN(SqliteTransaction transaction,
                   SqliteTransaction::Begin(db_));
  ASSIGN_OR_RETURN(const int64_t schema, Number("PRAGMA user_version"));
  if (schema == kSchema) return absl::OkStatus();
  if (schema > kSchema) {
    return absl::FailedPreconditionError(
        absl::StrCat("the job records are of version ", schema,
                     ", this program knows ", kSchema, ": use a newer one"));
  }
  if (schema == 0) RETURN_IF_ERROR(db_.Execute(kTables));
  RETURN_IF_ERROR(db_.Execute(kDeletedTable));
  return transaction.Commit();
}

absl::StatusOr<int64_t> JobStore::Number(absl::string_view query) const {
  ASSIGN_OR_RETURN(SqliteStatement select, db_.Prepare(query));
  RETURN_IF_ERROR(select.Step().status());
  return select.Int64(0);
}

absl::Status JobStore::Execute(absl::string_view sql, absl::string_view id) {
  ASSIGN_OR_RETURN(SqliteStatement statement, db_.Prepare(sql));
  return statement.BindText(1, id).Finish();
}

absl::StatusOr<JobStore::Row> JobStore::Find(const char* column,
                                             absl::string_view value) const {
  ASSIGN_OR_RETURN(
      SqliteStatement select,
      db_.Prepare(absl::StrCat("SELECT sequence, events, full, record, id "
                               "FROM jobs WHERE ",
                               column, " = ?1")));
  ASSIGN_OR_RETURN(const bool found, select.BindText(1, value).Step());
  if (!found) return NotFound(value);
  Row row;
  row.sequence = select.Int64(0);
  row.events = select.Int64(1);
  row.full = select.Int64(2) != 0;
  ASSIGN_OR_RETURN(row.job, JobOf(select.Bytes(4), select.Bytes(3)));
  return row;
}

absl::StatusOr<JobStore::Row> JobStore::FindId(absl::string_view id) const {
  return Find("id", id);
}

absl::Status JobStore::Save(const Row& row) {
  ASSIGN_OR_RETURN(
      SqliteStatement update,
      db_.Prepare("UPDATE jobs SET ended = ?2, events = ?3, full = ?4, "
                  "record = ?5 WHERE sequence = ?1"));
  return update.Bind(1, row.sequence)
      .Bind(2, HasEnded(row.job.state))
      .Bind(3, row.events)
      .Bind(4, row.full)
      .BindBlob(5, JobToBytes(row.job))
      .Finish();
}

absl::Status JobStore::Append(What what, Row& row) {
  JobEvent event;
  event.number = row.events++;
  event.time = absl::Now();
  event.what = std::move(what);
  ASSIGN_OR_RETURN(SqliteStatement insert,
                   db_.Prepare("INSERT INTO events VALUES (?1, ?2, ?3)"));
  return insert.Bind(1, row.sequence)
      .Bind(2, event.number)
      .BindBlob(3, EventToBytes(event))
      .Finish();
}

absl::Status JobStore::AppendLimited(What what, Row& row) {
  if (row.full) return absl::OkStatus();
  if (row.events + 1 < limits_.max_events_per_job) {
    return Append(std::move(what), row);
  }
  row.full = true;
  return Append(
      JobWarning{"no further events of this job are kept but its states"}, row);
}

// --- Submission ---

absl::StatusOr<Job> JobStore::Create(const JobRequest& request, bool* created) {
  *created = false;
  if (!request.id.empty()) {
    RETURN_IF_ERROR(CheckResourceId(request.id, "job_id"));
  }
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(SqliteTransaction transaction,
                   SqliteTransaction::Begin(db_));
  if (!request.request_id.empty()) {
    auto before = Find("request_id", request.request_id);
    if (before.ok()) {
      RETURN_IF_ERROR(CheckSameSpec(before->job, request));
      return before->job;
    }
    if (!absl::IsNotFound(before.status())) return before.status();
  }
  RETURN_IF_ERROR(CheckNew(request));
  ASSIGN_OR_RETURN(Job job, Insert(request));
  RETURN_IF_ERROR(transaction.Commit());
  *created = true;
  return job;
}

absl::Status JobStore::CheckNew(const JobRequest& request) const {
  ASSIGN_OR_RETURN(const int64_t count, Number("SELECT count(*) FROM jobs"));
  if (count >= limits_.max_jobs) {
    return absl::ResourceExhaustedError(
        absl::StrCat(count,
                     " jobs are kept, the most there can be: delete some that "
                     "have ended (recurve delete-job)"));
  }
  const absl::Status found = FindId(request.id).status();
  if (absl::IsNotFound(found)) return absl::OkStatus();
  RETURN_IF_ERROR(found);
  return absl::AlreadyExistsError(
      absl::StrCat("jobs/", request.id, " is there already"));
}

absl::StatusOr<std::string> JobStore::UnusedId() {
  while (true) {
    std::string id =
        absl::StrFormat("job-%08x", absl::Uniform<uint32_t>(random_));
    const absl::Status found = FindId(id).status();
    if (absl::IsNotFound(found)) return id;
    RETURN_IF_ERROR(found);
  }
}

absl::StatusOr<Job> JobStore::Insert(const JobRequest& request) {
  Row row;
  row.job.id = request.id;
  if (request.id.empty()) {
    ASSIGN_OR_RETURN(row.job.id, UnusedId());
  }
  row.job.spec = request.spec;
  row.job.owner = request.owner;
  row.job.priority = request.priority;
  row.job.create_time = absl::Now();
  ASSIGN_OR_RETURN(row.sequence,
                   Number("SELECT ifnull(max(sequence) + 1, 0) FROM jobs"));
  RETURN_IF_ERROR(Execute("DELETE FROM deleted WHERE id = ?1", row.job.id));
  ASSIGN_OR_RETURN(
      SqliteStatement insert,
      db_.Prepare("INSERT INTO jobs VALUES (?1, ?2, ?3, 0, 0, 0, x'')"));
  insert.Bind(1, row.sequence).BindText(2, row.job.id);
  if (!request.request_id.empty()) insert.BindText(3, request.request_id);
  RETURN_IF_ERROR(insert.Finish());
  RETURN_IF_ERROR(Append(row.job, row));
  RETURN_IF_ERROR(Save(row));
  return row.job;
}

// --- Looking ---

absl::StatusOr<Job> JobStore::Get(absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Row row, FindId(id));
  return std::move(row.job);
}

absl::StatusOr<Job> JobStore::FindRequest(absl::string_view request_id) const {
  absl::MutexLock lock(&mutex_);
  auto row = Find("request_id", request_id);
  if (row.ok()) return std::move(row->job);
  if (!absl::IsNotFound(row.status())) return row.status();
  return absl::NotFoundError(
      absl::StrCat("no job of request \"", request_id, "\""));
}

absl::StatusOr<JobPage> JobStore::List(int page_size,
                                       absl::string_view page_token) const {
  if (page_size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: ", page_size, " is negative"));
  }
  const int limit = page_size == 0 ? 100 : std::min(page_size, kMaxPageSize);
  ASSIGN_OR_RETURN(const int64_t before, ParseToken(page_token));
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(
      SqliteStatement select,
      db_.Prepare("SELECT sequence, id, record FROM jobs WHERE sequence < ?1 "
                  "ORDER BY sequence DESC LIMIT ?2"));
  select.Bind(1, before).Bind(2, limit);
  JobPage page;
  int64_t last = 0;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) break;
    last = select.Int64(0);
    const std::string id = select.Bytes(1);
    auto job = JobOf(id, select.Bytes(2));
    page.jobs.push_back(job.ok() ? *std::move(job)
                                 : DamagedJob(id, job.status()));
  }
  // Below 0 there is none.
  if (last > 0) page.next_page_token = absl::StrCat(last);
  return page;
}

absl::StatusOr<std::vector<absl::StatusOr<Job>>> JobStore::Unfinished() const {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(SqliteStatement select,
                   db_.Prepare("SELECT id, record FROM jobs WHERE ended = 0 "
                               "ORDER BY sequence"));
  std::vector<absl::StatusOr<Job>> jobs;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return jobs;
    jobs.push_back(JobOf(select.Bytes(0), select.Bytes(1)));
  }
}

absl::StatusOr<std::vector<JobEvent>> JobStore::Events(absl::string_view id,
                                                       int64_t first,
                                                       int limit) const {
  if (first < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_event: ", first, " is negative"));
  }
  const int most =
      limit <= 0 ? kMaxEventsAtOnce : std::min(limit, kMaxEventsAtOnce);
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const Row job, FindId(id));
  ASSIGN_OR_RETURN(
      SqliteStatement select,
      db_.Prepare("SELECT record FROM events WHERE job = ?1 AND number >= ?2 "
                  "ORDER BY number LIMIT ?3"));
  select.Bind(1, job.sequence).Bind(2, first).Bind(3, most);
  std::vector<JobEvent> events;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return events;
    auto event = EventFromBytes(select.Bytes(0));
    if (!event.ok()) return Damaged(id, "an event");
    events.push_back(*std::move(event));
  }
}

// --- Changes ---

absl::StatusOr<Job> JobStore::Update(
    absl::string_view id, const std::function<absl::Status(Row&)>& edit) {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(SqliteTransaction transaction,
                   SqliteTransaction::Begin(db_));
  ASSIGN_OR_RETURN(Row row, FindId(id));
  RETURN_IF_ERROR(edit(row));
  RETURN_IF_ERROR(Save(row));
  RETURN_IF_ERROR(transaction.Commit());
  return std::move(row.job);
}

absl::StatusOr<Job> JobStore::SetState(
    absl::string_view id, JobState state, absl::string_view cause,
    const std::function<void(Job&)>& change) {
  auto job = Update(id, [&](Row& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    RETURN_IF_ERROR(CheckTransition(row.job, state));
    if (change) change(row.job);
    Enter(state, cause, absl::Now(), &row.job);
    return Append(row.job, row);
  });
  if (job.ok()) listeners_.Notify(id);
  return job;
}

absl::StatusOr<Job> JobStore::Change(absl::string_view id,
                                     const std::function<void(Job&)>& change) {
  return Update(id, [&](Row& row) {
    change(row.job);
    return absl::OkStatus();
  });
}

absl::Status JobStore::AppendEvent(absl::string_view id, What what,
                                   const std::function<void(Job&)>& edit) {
  RETURN_IF_ERROR(
      Update(id, [&](Row& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        RETURN_IF_ERROR(CheckNotEnded(row.job));
        edit(row.job);
        return AppendLimited(std::move(what), row);
      }).status());
  listeners_.Notify(id);
  return absl::OkStatus();
}

absl::Status JobStore::Report(absl::string_view id, const JobMetrics& metrics,
                              std::vector<DeviceTime> devices) {
  return AppendEvent(id, metrics, [&](Job& job) {
    job.step = metrics.step;
    job.loss = metrics.loss;
    job.devices = std::move(devices);
  });
}

absl::Status JobStore::ReportEvaluation(absl::string_view id,
                                        const JobEvaluation& evaluation,
                                        bool best) {
  return AppendEvent(id, evaluation, [&](Job& job) {
    if (best) job.best = evaluation;
  });
}

absl::Status JobStore::ReportCheckpoint(absl::string_view id,
                                        const JobCheckpoint& checkpoint) {
  return AppendEvent(id, checkpoint, [&](Job& job) {
    if (checkpoint.step > job.checkpoint_step) job.fruitless_starts = 0;
    job.checkpoint_step = checkpoint.step;
  });
}

absl::Status JobStore::Warn(absl::string_view id, absl::string_view text) {
  return AppendEvent(id, JobWarning{std::string(text)}, [](Job&) {});
}

// --- Deletion ---

absl::Status JobStore::Delete(absl::string_view id) {
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(SqliteTransaction transaction,
                     SqliteTransaction::Begin(db_));
    const auto row = FindId(id);
    if (row.ok()) RETURN_IF_ERROR(CheckEnded(row->job));
    if (!row.ok() && !absl::IsDataLoss(row.status())) return row.status();
    RETURN_IF_ERROR(
        Execute("DELETE FROM events WHERE job = "
                "(SELECT sequence FROM jobs WHERE id = ?1)",
                id));
    RETURN_IF_ERROR(Execute("DELETE FROM jobs WHERE id = ?1", id));
    RETURN_IF_ERROR(Execute("INSERT OR IGNORE INTO deleted VALUES (?1)", id));
    RETURN_IF_ERROR(transaction.Commit());
  }
  listeners_.Notify(id);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> JobStore::Deleted() const {
  absl::MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(SqliteStatement select,
                   db_.Prepare("SELECT id FROM deleted"));
  std::vector<std::string> ids;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, select.Step());
    if (!row) return ids;
    ids.push_back(select.Bytes(0));
  }
}

absl::Status JobStore::ForgetDeleted(absl::string_view id) {
  absl::MutexLock lock(&mutex_);
  return Execute("DELETE FROM deleted WHERE id = ?1", id);
}

absl::StatusOr<std::unique_ptr<JobSubscription>> JobStore::Subscribe(
    absl::string_view id, std::function<void()> notify) {
  RETURN_IF_ERROR(Get(id).status());
  return listeners_.Add(std::string(id), std::move(notify));
}

}  // namespace recurve
