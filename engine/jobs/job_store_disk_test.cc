// The job store on disk: restarts, faults, crashes.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "engine/base/sqlite.h"
#include "engine/base/testing/fault_sqlite_vfs.h"
#include "engine/jobs/job_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/status.h"

namespace recurve {
namespace {

using enum JobState;

class JobStoreDiskTest : public ::testing::Test {
 protected:
  void Open(const std::string& path, const JobStoreLimits& limits = {}) {
    store_.reset();
    auto store = JobStore::Open(path, limits);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // A file that is not there yet.
  std::string NewPath() {
    const std::string path =
        ::testing::TempDir() + "/" +
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const char* end : {"", "-wal", "-shm"}) unlink((path + end).c_str());
    return path;
  }
  void Create(const std::string& id) {
    JobRequest request;
    request.id = id;
    bool created = false;
    ASSERT_TRUE(store_->Create(request, &created).ok());
  }

  std::unique_ptr<JobStore> store_;
};

// --- All of a store as text ---

std::string Text(const std::optional<absl::Time>& time) {
  return time ? absl::StrCat(absl::ToUnixNanos(*time)) : "none";
}
// Every bit of it.
std::string Text(double number) { return absl::StrFormat("%a", number); }

std::string Text(const JobEvaluation& evaluation) {
  return absl::StrJoin({absl::StrCat(evaluation.step), Text(evaluation.loss),
                        Text(evaluation.accuracy), Text(evaluation.weight)},
                       " ");
}

std::string Text(const Job& job) {
  std::string text = absl::StrJoin(
      {job.id, job.spec.ShortDebugString(), job.owner,
       absl::StrCat(job.priority), std::string(JobStateName(job.state)),
       job.cause, Text(job.create_time), Text(job.start_time),
       Text(job.end_time), absl::StrCat(job.runs),
       absl::StrCat(job.fruitless_starts), absl::StrCat(job.step),
       absl::StrCat(job.max_steps), Text(job.loss),
       absl::StrCat(job.checkpoint_step), job.best ? Text(*job.best) : "none",
       job.held_out_loss ? Text(*job.held_out_loss) : "none", job.data_sha256,
       job.model_version},
      "|");
  for (const DeviceTime& d : job.devices) {
    absl::StrAppend(&text, "|", d.device, " ", d.micro_batches, " ", d.rows,
                    " ", Text(d.compute_ms), " ", Text(d.exchange_ms), " ",
                    Text(d.update_ms));
  }
  return text;
}

std::string Text(const JobMetrics& m) {
  return absl::StrJoin(
      {absl::StrCat(m.step, " ", m.epoch), Text(m.loss), Text(m.gradient_norm),
       Text(m.learning_rate), Text(m.rows_per_second), Text(m.seconds),
       Text(m.fraction_done)},
      " ");
}
std::string Text(const JobWarning& warning) { return warning.text; }
std::string Text(const JobCheckpoint& checkpoint) {
  return absl::StrCat(checkpoint.step, " ", checkpoint.size_bytes, " ",
                      Text(checkpoint.seconds));
}

// All that is in the store, as text.
absl::StatusOr<std::string> TryContents(const JobStore& store) {
  std::string text;
  ASSIGN_OR_RETURN(const JobPage page, store.List(JobStore::kMaxPageSize, ""));
  for (const Job& job : page.jobs) {
    absl::StrAppend(&text, Text(job), "\n");
    ASSIGN_OR_RETURN(const auto events, store.Events(job.id, 0, 0));
    for (const JobEvent& event : events) {
      absl::StrAppend(
          &text, event.number, ": ", event.what.index(), " ", Text(event.time),
          " ",
          std::visit([](const auto& what) { return Text(what); }, event.what),
          "\n");
    }
  }
  return text;
}

std::string Contents(const JobStore& store) {
  const auto contents = TryContents(store);
  EXPECT_TRUE(contents.ok()) << contents.status();
  return contents.value_or("");
}

// The events of "a" are numbered without gaps.
void ExpectNoGaps(const JobStore& store) {
  const auto events = *store.Events("a", 0, 0);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].number, static_cast<int64_t>(i));
  }
}

// --- What is done to it ---

using Operation = std::function<absl::Status(JobStore&)>;

Operation StateOperation(JobState state) {
  return [state](JobStore& store) {
    return store
        .SetState("a", state, "why",
                  [](Job& job) { job.fruitless_starts = ++job.runs; })
        .status();
  };
}

// The life of a job, with all that can be kept of it.
std::vector<Operation> Life() {
  constexpr double kTiny = 4.9406564584124654e-324;
  return {
      [](JobStore& store) {
        JobRequest request = {{}, "a", "request", "owner", -3};
        request.spec.set_model("models/m");
        request.spec.mutable_trainer()->set_seed(7);
        bool created = false;
        return store.Create(request, &created).status();
      },
      StateOperation(kValidating),
      [](JobStore& store) {
        return store
            .Change("a",
                    [](Job& job) {
                      job.max_steps = INT64_MAX;
                      job.data_sha256 = "abc";
                      job.held_out_loss = 0.1;
                    })
            .status();
      },
      StateOperation(kRunning),
      [](JobStore& store) {
        return store.Report(
            "a", {INT64_MAX, 2, 0.1, HUGE_VAL, kTiny, -0.0, 1e300, 1.0 / 3},
            {{"devices/0", 3, 1 << 20, 0.7, 1e-9, 2},
             {"devices/1", 4, 5, 6, 7, 8}});
      },
      [](JobStore& store) {
        return store.ReportEvaluation("a", {5, 0.3, 0.9, 1e15}, true);
      },
      [](JobStore& store) {
        return store.ReportCheckpoint("a", {5, int64_t{1} << 40, 0.1});
      },
      [](JobStore& store) { return store.Warn("a", "l'\xc3\xa4\n|"); },
      StateOperation(kPausing),
      [](JobStore& store) {
        return store
            .SetState(
                "a", kSucceeded, "",
                [](Job& job) { job.model_version = "models/m/versions/3"; })
            .status();
      },
  };
}

// --- Tests ---

TEST_F(JobStoreDiskTest, WhatWasKeptIsTheSameAfterEveryRestart) {
  const std::string path = NewPath();
  Open(path);
  for (const Operation& operation : Life()) {
    ASSERT_TRUE(operation(*store_).ok());
    const std::string before = Contents(*store_);
    Open(path);
    EXPECT_EQ(Contents(*store_), before);
  }
  EXPECT_EQ(store_->FindRequest("request")->model_version,
            "models/m/versions/3");
  EXPECT_EQ(store_->Events("a", 0, 0)->size(), 9u);
}

TEST_F(JobStoreDiskTest, ALimitReachedStaysReachedAfterARestart) {
  const std::string path = NewPath();
  JobStoreLimits limits;
  limits.max_events_per_job = 3;
  for (int i = 0; i < 4; ++i) {
    Open(path, limits);
    if (i == 0) Create("a");
    ASSERT_TRUE(store_->Warn("a", "x").ok());
  }
  EXPECT_EQ(store_->Events("a", 0, 0)->size(), 3u);
}

TEST_F(JobStoreDiskTest, UnfinishedJobsComeInTheOrderOfSubmission) {
  const std::string path = NewPath();
  Open(path);
  for (const char* id : {"d", "b", "c", "a"}) Create(id);
  ASSERT_TRUE(store_->SetState("b", kCancelled, "").ok());
  ASSERT_TRUE(store_->SetState("a", kValidating, "").ok());
  Open(path);
  std::vector<std::string> ids;
  const auto jobs = *store_->Unfinished();
  for (const auto& job : jobs) ids.push_back(job->id);
  EXPECT_THAT(ids, ::testing::ElementsAre("d", "c", "a"));
  EXPECT_EQ(jobs[2]->state, kValidating);
}

TEST_F(JobStoreDiskTest, ADamagedRecordIsThatJobsAlone) {
  const std::string path = NewPath();
  Open(path);
  for (const char* id : {"a", "b", "c"}) Create(id);
  ASSERT_TRUE(SqliteDatabase::Open(path)
                  ->Execute("UPDATE jobs SET record = x'ff' WHERE id = 'b'")
                  .ok());
  Open(path);
  const absl::Status damaged = store_->Get("b").status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()),
              ::testing::StartsWith("jobs/b: its record is damaged"));
  const auto unfinished = *store_->Unfinished();
  ASSERT_EQ(unfinished.size(), 3u);
  EXPECT_EQ(unfinished[0]->id, "a");
  EXPECT_EQ(unfinished[1].status(), damaged);
  EXPECT_EQ(unfinished[2]->id, "c");
  const auto page = store_->List(0, "");
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->jobs.size(), 3u);
  EXPECT_EQ(page->jobs[1].id, "b");
  EXPECT_EQ(page->jobs[1].state, kFailed);
  EXPECT_EQ(page->jobs[1].cause, damaged.ToString());
  EXPECT_TRUE(store_->Delete("b").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get("b").status()));
}

TEST_F(JobStoreDiskTest, ADamagedEventNamesItsJob) {
  const std::string path = NewPath();
  Open(path);
  Create("a");
  ASSERT_TRUE(SqliteDatabase::Open(path)
                  ->Execute("UPDATE events SET record = x'ff'")
                  .ok());
  EXPECT_TRUE(store_->Get("a").ok());
  const absl::Status damaged = store_->Events("a", 0, 0).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()),
              ::testing::StartsWith("jobs/a: an event is damaged"));
}

TEST_F(JobStoreDiskTest, RecordsOfANewerProgramAreLeftAlone) {
  const std::string path = NewPath();
  Open(path);
  store_.reset();
  ASSERT_TRUE(
      SqliteDatabase::Open(path)->Execute("PRAGMA user_version = 3").ok());
  EXPECT_EQ(JobStore::Open(path).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Whichever operation on the disk fails once: a call that reports an error has
// changed nothing, the same call then succeeds, and the disk has it all.
TEST_F(JobStoreDiskTest, RecordsOfVersionOneAreTakenOver) {
  const std::string path = NewPath();
  Open(path);
  Create("a");
  store_.reset();
  ASSERT_TRUE(SqliteDatabase::Open(path)
                  ->Execute("DROP TABLE deleted; PRAGMA user_version = 1")
                  .ok());
  Open(path);
  EXPECT_EQ(store_->Get("a")->state, kQueued);
  ASSERT_TRUE(store_->SetState("a", kCancelled, "").ok());
  EXPECT_TRUE(store_->Delete("a").ok());
}

TEST_F(JobStoreDiskTest, ADeletedJobStaysSoAndItsIdIsKeptForItsFiles) {
  const std::string path = NewPath();
  Open(path);
  for (const char* id : {"a", "b"}) {
    Create(id);
    ASSERT_TRUE(store_->SetState(id, kCancelled, "").ok());
    ASSERT_TRUE(store_->Delete(id).ok());
  }
  Open(path);
  EXPECT_TRUE(absl::IsNotFound(store_->Get("a").status()));
  EXPECT_THAT(*store_->Deleted(), ::testing::ElementsAre("a", "b"));
  Create("a");
  ASSERT_TRUE(store_->ForgetDeleted("b").ok());
  EXPECT_THAT(*store_->Deleted(), ::testing::IsEmpty());
}

TEST_F(JobStoreDiskTest, WhateverFailsOnceIsOldOrNewAndTheStoreGoesOn) {
  Faults faults;
  FaultSqliteVfs vfs(faults);
  int64_t n = 1;
  for (bool failed = true; failed; ++n) {
    const std::string path = NewPath();
    faults.FailAt(n, n % 2 == 0 ? EIO : ENOSPC);
    auto store = JobStore::Open(path);
    if (!store.ok()) store = JobStore::Open(path);
    ASSERT_TRUE(store.ok()) << faults.where() << store.status();
    for (const Operation& operation : Life()) {
      auto before = TryContents(**store);
      if (!before.ok()) before = TryContents(**store);
      if (operation(**store).ok()) continue;
      EXPECT_EQ(Contents(**store), *before) << faults.where();
      const absl::Status again = operation(**store);
      EXPECT_TRUE(again.ok()) << faults.where() << again;
    }
    failed = faults.Disarm();
    const std::string contents = Contents(**store);
    store->reset();
    Open(path);
    EXPECT_EQ(Contents(*store_), contents) << faults.where();
    EXPECT_EQ(store_->Get("a")->state, kSucceeded);
    ExpectNoGaps(*store_);
    store_.reset();
  }
  EXPECT_GT(n, 50);
}

// The same on a disk that stays full: nothing more is kept, what was there is,
// and with space again all goes on.
TEST_F(JobStoreDiskTest, OnAFullDiskNothingIsLostAndTheStoreGoesOnAfterwards) {
  Faults faults;
  FaultSqliteVfs vfs(faults);
  const std::vector<Operation> life = Life();
  for (int64_t n = 1;; ++n) {
    Open(NewPath());
    size_t done = 0;
    std::string before;
    faults.FailAt(n, ENOSPC, Faults::kFromThen);
    while (done < life.size() && life[done](*store_).ok()) ++done;
    for (size_t i = done; i < life.size(); ++i) {
      EXPECT_FALSE(life[i](*store_).ok()) << faults.where();
    }
    if (!faults.Disarm()) break;
    const auto count = store_->List(0, "")->jobs.size();
    EXPECT_EQ(count, done > 0 ? 1u : 0u) << faults.where();
    for (; done < life.size(); ++done) {
      const absl::Status again = life[done](*store_);
      EXPECT_TRUE(again.ok()) << faults.where() << again;
    }
    store_.reset();
  }
  store_.reset();
}

// In a child process, which tells the parent of each call that succeeded.
TEST_F(JobStoreDiskTest, WhereverTheProcessDiesWhatWasAcknowledgedIsThere) {
  const std::vector<Operation> life = Life();
  int exit_code = 9;
  for (int64_t n = 1; exit_code == 9; ++n) {
    const std::string path = NewPath();
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      Faults faults;
      FaultSqliteVfs vfs(faults);
      faults.CallAt(n, [] { _exit(9); });
      auto store = JobStore::Open(path);
      if (!store.ok()) _exit(1);
      for (const Operation& operation : life) {
        if (!operation(**store).ok()) _exit(2);
        if (write(ends[1], "+", 1) != 1) _exit(3);
      }
      store->reset();
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    exit_code = WEXITSTATUS(status);
    close(ends[1]);
    char byte = 0;
    size_t done = 0;
    while (read(ends[0], &byte, 1) == 1) ++done;
    close(ends[0]);
    Open(path);
    // The last may have been made without having been acknowledged.
    if (done < life.size()) life[done](*store_).IgnoreError();
    for (size_t i = done + 1; i < life.size(); ++i) {
      const absl::Status next = life[i](*store_);
      EXPECT_TRUE(next.ok()) << n << next;
    }
    EXPECT_EQ(store_->Get("a")->state, kSucceeded) << n;
    ExpectNoGaps(*store_);
  }
  EXPECT_EQ(exit_code, 0);
}

TEST_F(JobStoreDiskTest, EventsOfTwoThreadsAreNumberedWithoutGapsOnDisk) {
  const std::string path = NewPath();
  Open(path);
  Create("a");
  Create("b");
  const auto report = [&](const std::string& id) {
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(store_->Report("a", JobMetrics(), {}).ok());
      ASSERT_TRUE(store_->Warn(id, "").ok());
    }
  };
  std::thread first(report, "a"), second(report, "b");
  first.join();
  second.join();
  const std::string before = Contents(*store_);
  Open(path);
  EXPECT_EQ(Contents(*store_), before);
  ExpectNoGaps(*store_);
  EXPECT_EQ(store_->Events("a", 0, 0)->size(), 91u);
  EXPECT_EQ(store_->Events("b", 0, 0)->size(), 31u);
}

}  // namespace
}  // namespace recurve
