#include "engine/jobs/job_dispatcher.h"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/sqlite.h"
#include "engine/base/testing/fault_sqlite_vfs.h"
#include "engine/base/testing/faults.h"
#include "engine/jobs/scripted_runs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobRequest Request(const std::string& id, const std::string& request_id = "") {
  JobRequest request;
  request.id = id;
  request.request_id = request_id;
  return request;
}

class JobDispatcherTest : public ::testing::Test {
 protected:
  explicit JobDispatcherTest(const std::string& path = ":memory:")
      : jobs_(*JobStore::Open(path)) {
    Start();
  }
  ~JobDispatcherTest() override {
    const auto page = jobs_->List(0, "");
    for (const Job& job : page->jobs) {
      if (dispatcher_ && !HasEnded(Cancel(job.id))) runs_.Stop(job.id);
    }
  }

  void Start() {
    dispatcher_ = nullptr;
    dispatcher_ = std::make_unique<JobDispatcher>(
        options_, *jobs_, [this](const Job& job, JobControl& control) {
          runs_.Execute(job, control);
        });
    const auto damaged = dispatcher_->Start();
    ASSERT_TRUE(damaged.ok()) << damaged.status();
    damaged_ = *damaged;
  }
  void Submit(const std::string& id, const std::string& owner = "",
              int32_t priority = 0) {
    JobRequest request = Request(id);
    request.owner = owner;
    request.priority = priority;
    const auto job = dispatcher_->Submit(request);
    EXPECT_TRUE(job.ok()) << job.status();
  }
  // Submitted and running.
  void SubmitAndRun(const std::string& id, const std::string& owner = "") {
    Submit(id, owner);
    for (size_t count = 1; runs_.Started(count).back() != id; ++count) {
    }
  }
  JobState Pause(const std::string& id) { return Ask(id, JobChange::kPause); }
  JobState Resume(const std::string& id) { return Ask(id, JobChange::kResume); }
  JobState Cancel(const std::string& id) { return Ask(id, JobChange::kCancel); }
  // kFailed where it was refused.
  JobState Ask(const std::string& id, JobChange change) {
    const auto job = dispatcher_->Change(id, change);
    if (job.ok()) return job->state;
    refusal_ = job.status();
    return kFailed;
  }
  Job Get(const std::string& id) { return *jobs_->Get(id); }
  void AwaitState(const std::string& id, JobState state) {
    const absl::Time deadline = absl::Now() + kPatience;
    int64_t next = 0;
    while (true) {
      ASSERT_TRUE(*WaitForEvent(*jobs_, id, next, deadline));
      const JobEvent event = jobs_->Events(id, next++, 1)->front();
      const Job* job = std::get_if<Job>(&event.what);
      if (job != nullptr && job->state == state && Get(id).state == state) {
        return;
      }
    }
  }
  // What the dispatcher says of a queued job, once `words` are in it.
  static std::string AwaitCause(const JobDispatcher& dispatcher,
                                const std::string& id, const char* words) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (true) {
      Job job;
      job.id = id;
      dispatcher.Explain(absl::MakeSpan(&job, 1));
      if (absl::StrContains(job.cause, words)) return job.cause;
      if (absl::Now() > deadline) {
        ADD_FAILURE() << "is not said: " << words << "; but: " << job.cause;
        return "";
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  std::vector<JobState> States(const std::string& id) {
    std::vector<JobState> states;
    const auto events = *jobs_->Events(id, 0, 0);
    for (const JobEvent& event : events) {
      states.push_back(std::get<Job>(event.what).state);
    }
    return states;
  }

  JobDispatcher::Options options_;
  std::unique_ptr<JobStore> jobs_;
  ScriptedRuns runs_{*jobs_};
  std::unique_ptr<JobDispatcher> dispatcher_;
  std::vector<absl::Status> damaged_;  // as Start found them
  absl::Status refusal_;
};

TEST_F(JobDispatcherTest, StartsJobsByPriorityThenInTurnsOfTheirOwners) {
  SubmitAndRun("first");
  Submit("a1", "a");
  Submit("a2", "a");
  Submit("b1", "b");
  Submit("low", "c", -1);
  Submit("high", "a", 100);
  for (const char* id : {"first", "high", "a1", "a2", "b1", "low"}) {
    runs_.Succeed(id);
  }
  // No run took any time: nobody has used more than another.
  EXPECT_THAT(runs_.Started(6),
              ElementsAre("first", "high", "a1", "a2", "b1", "low"));
}

TEST_F(JobDispatcherTest, AnOwnersUseOfTheDevicesCounts) {
  SubmitAndRun("a1", "a");
  Submit("a2", "a");
  Submit("b1", "b");
  DeviceTime time;
  time.compute_ms = 5000;
  ASSERT_TRUE(jobs_->Report("a1", {}, {time}).ok());
  runs_.Succeed("a1");
  EXPECT_THAT(runs_.Started(2), ElementsAre("a1", "b1"));
}

TEST_F(JobDispatcherTest, ARequestIdMakesOneJob) {
  SubmitAndRun("first");
  options_.max_queued = 1;
  ASSERT_TRUE(dispatcher_->Submit(Request("queued", "request")).ok());
  EXPECT_EQ(dispatcher_->Submit(Request("", "request"))->id, "queued");
}

TEST_F(JobDispatcherTest, AQueuedJobIsPausedAtOnceAndReturnsToItsPlace) {
  SubmitAndRun("first");
  Submit("second");
  Submit("third");
  EXPECT_EQ(Pause("second"), kPaused);
  EXPECT_EQ(Pause("second"), kPaused);
  EXPECT_EQ(Resume("second"), kQueued);
  runs_.Succeed("first");
  EXPECT_THAT(runs_.Started(2), ElementsAre("first", "second"));
  EXPECT_EQ(Get("second").runs, 1);
}

TEST_F(JobDispatcherTest, ARunningJobGivesItsPlaceUpAndRunsAgainOnceResumed) {
  SubmitAndRun("first");
  Submit("second");
  EXPECT_EQ(Pause("first"), kPausing);
  EXPECT_EQ(runs_.RequestedOf("first"), StopRequest::kPause);
  EXPECT_EQ(Pause("first"), kPausing);
  runs_.Stop("first");
  EXPECT_THAT(runs_.Started(2), ElementsAre("first", "second"));
  EXPECT_EQ(Get("first").state, kPaused);
  EXPECT_EQ(Get("first").cause, "paused on request");
  EXPECT_EQ(Resume("first"), kQueued);
  EXPECT_EQ(Get("first").cause, "resumed");
  runs_.Succeed("second");
  EXPECT_THAT(runs_.Started(3), ElementsAre("first", "second", "first"));
  EXPECT_EQ(Get("first").runs, 2);
  EXPECT_THAT(States("first"), ElementsAre(kQueued, kValidating, kPausing,
                                           kPaused, kQueued, kValidating));
}

TEST_F(JobDispatcherTest, AResumeBeforeThePauseTakesEffectIsKept) {
  SubmitAndRun("j");
  EXPECT_EQ(Pause("j"), kPausing);
  EXPECT_EQ(Resume("j"), kValidating);
  EXPECT_EQ(runs_.RequestedOf("j"), StopRequest::kPause);
  runs_.Stop("j");
  EXPECT_THAT(runs_.Started(2), ElementsAre("j", "j"));
  EXPECT_EQ(runs_.RequestedOf("j"), StopRequest::kNone);
  EXPECT_THAT(States("j"), ElementsAre(kQueued, kValidating, kPausing,
                                       kValidating, kQueued, kValidating));
}

TEST_F(JobDispatcherTest, AResumeBetweenTheRunsLastWordAndItsEndIsKept) {
  SubmitAndRun("j");
  EXPECT_EQ(Pause("j"), kPausing);
  runs_.End("j", [this] {
    runs_.StopNow("j");
    EXPECT_EQ(Get("j").state, kPaused);
    EXPECT_EQ(Resume("j"), kQueued);
  });
  EXPECT_THAT(runs_.Started(2), ElementsAre("j", "j"));
}

TEST_F(JobDispatcherTest, APauseBetweenTheRunsLastWordAndItsEndIsKept) {
  SubmitAndRun("j");
  EXPECT_EQ(Pause("j"), kPausing);
  EXPECT_EQ(Resume("j"), kValidating);
  runs_.End("j", [this] {
    runs_.StopNow("j");
    EXPECT_EQ(Get("j").state, kQueued);
    EXPECT_EQ(Pause("j"), kPaused);
  });
  SubmitAndRun("next");
  EXPECT_THAT(runs_.Started(2), ElementsAre("j", "next"));
  EXPECT_EQ(Get("j").state, kPaused);
}

TEST_F(JobDispatcherTest, CancelsInEveryState) {
  SubmitAndRun("running");
  Submit("queued");
  Submit("paused");
  Pause("paused");
  EXPECT_EQ(Cancel("queued"), kCancelled);
  EXPECT_EQ(Cancel("paused"), kCancelled);
  EXPECT_EQ(Pause("running"), kPausing);
  EXPECT_EQ(Cancel("running"), kCancelling);
  EXPECT_EQ(runs_.RequestedOf("running"), StopRequest::kCancel);
  EXPECT_EQ(Cancel("running"), kCancelling);
  EXPECT_EQ(Pause("running"), kFailed);
  EXPECT_EQ(refusal_.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(refusal_.message(),
            "jobs/running is CANCELLING and cannot be paused");
  runs_.Stop("running");
  AwaitState("running", kCancelled);
  EXPECT_EQ(Get("running").cause, "cancelled on request");
  EXPECT_EQ(Cancel("running"), kCancelled);
  EXPECT_EQ(Resume("running"), kFailed);
  EXPECT_EQ(dispatcher_->Change("none", JobChange::kCancel).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(JobDispatcherTest, AJobMayEndBeforeThePauseTakesEffect) {
  SubmitAndRun("j");
  EXPECT_EQ(Pause("j"), kPausing);
  runs_.Succeed("j");
  AwaitState("j", kSucceeded);
  EXPECT_EQ(Resume("j"), kFailed);
  SubmitAndRun("resumed");
  EXPECT_EQ(Pause("resumed"), kPausing);
  EXPECT_EQ(Resume("resumed"), kValidating);
  runs_.Succeed("resumed");
  AwaitState("resumed", kSucceeded);
  EXPECT_EQ(runs_.Started(2).size(), 2u);
}

TEST_F(JobDispatcherTest, ARunThatLeavesNoWordIsBegunAgain) {
  SubmitAndRun("j");
  runs_.End("j", [] {});
  EXPECT_THAT(runs_.Started(2), ElementsAre("j", "j"));
  EXPECT_EQ(Get("j").runs, 2);
}

TEST_F(JobDispatcherTest, DeletesAJobOnceItsRunIsOver) {
  SubmitAndRun("a");
  bool removed = false;
  const auto remove = [&removed] { removed = true; };
  EXPECT_TRUE(absl::IsFailedPrecondition(dispatcher_->Delete("a", remove)));
  EXPECT_FALSE(removed);
  runs_.Set("a", kSucceeded);
  std::thread deletion([&] {
    const absl::Status deleted = dispatcher_->Delete("a", remove);
    EXPECT_TRUE(deleted.ok()) << deleted;
  });
  runs_.End("a", [&] { EXPECT_TRUE(jobs_->Get("a").ok()); });
  deletion.join();
  EXPECT_TRUE(removed);
  SubmitAndRun("a");
  runs_.Succeed("a");
}

TEST_F(JobDispatcherTest, AFullQueueTakesNeitherNewNorResumedJobs) {
  options_.max_queued = 1;
  Start();
  SubmitAndRun("running");
  Submit("paused");
  Pause("paused");
  Submit("queued");
  EXPECT_EQ(dispatcher_->Submit(Request("more")).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Resume("paused"), kFailed);
  EXPECT_EQ(refusal_.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Get("paused").state, kPaused);
  Cancel("queued");
  EXPECT_EQ(Resume("paused"), kQueued);
}

TEST_F(JobDispatcherTest, QueuedJobsSayWhatTheyWaitFor) {
  SubmitAndRun("running");
  Submit("a");
  Submit("b");
  Submit("c");
  Pause("b");
  Resume("b");
  std::vector<Job> jobs = {Get("running"), Get("a"), Get("b"), Get("c")};
  dispatcher_->Explain(absl::MakeSpan(jobs));
  const std::string runs =
      "waiting: 1 job runs, the most there can be (--max_running_jobs); ";
  EXPECT_EQ(jobs[0].cause, "");
  EXPECT_EQ(jobs[1].cause, runs + "0 jobs are ahead");
  EXPECT_EQ(jobs[2].cause, "resumed; " + runs + "1 job is ahead");
  EXPECT_EQ(jobs[3].cause, runs + "2 jobs are ahead");
  EXPECT_EQ(Get("c").cause, "");  // not in the record
}

TEST_F(JobDispatcherTest, RunsAsManyAtOnceAsItMay) {
  options_.max_running = 2;
  Start();
  Submit("a");
  Submit("b");
  Submit("c");
  EXPECT_EQ(runs_.Started(2).size(), 2u);
  EXPECT_EQ(Get("c").state, kQueued);
  runs_.Succeed("b");
  EXPECT_EQ(runs_.Started(3).back(), "c");
  EXPECT_EQ(Get("a").state, kValidating);
}

TEST_F(JobDispatcherTest, AfterAShutdownTheNextOneGoesOn) {
  SubmitAndRun("running");
  Submit("queued");
  Submit("paused");
  Pause("paused");
  std::thread ends([this] {
    while (runs_.RequestedOf("running") != StopRequest::kShutdown) {
      std::this_thread::yield();
    }
    runs_.Stop("running");
  });
  dispatcher_->Shutdown();
  ends.join();
  EXPECT_THAT(States("running"), ElementsAre(kQueued, kValidating, kQueued));
  EXPECT_THAT(States("queued"), ElementsAre(kQueued));
  EXPECT_EQ(dispatcher_->Submit(Request("")).status().code(),
            absl::StatusCode::kUnavailable);
  Start();
  EXPECT_EQ(runs_.Started(2).back(), "running");
  runs_.Succeed("running");
  EXPECT_EQ(runs_.Started(3).back(), "queued");
  EXPECT_EQ(Resume("paused"), kQueued);
}

TEST_F(JobDispatcherTest, APauseUnderWayIsKeptOverAShutdown) {
  SubmitAndRun("j");
  Pause("j");
  runs_.Stop("j");
  dispatcher_->Shutdown();
  EXPECT_EQ(Get("j").state, kPaused);
}

// A store as a crash leaves it: a job in every state.
TEST_F(JobDispatcherTest, TakesUpWhatACrashLeft) {
  dispatcher_ = nullptr;
  const std::map<std::string, std::vector<JobState>> ways = {
      {"1-queued", {}},
      {"2-validating", {kValidating}},
      {"3-running", {kValidating, kRunning}},
      {"4-pausing", {kValidating, kPausing}},
      {"5-paused", {kPaused}},
      {"6-cancelling", {kValidating, kCancelling}},
      {"7-cancelled", {kCancelled}},
      {"8-succeeded", {kValidating, kRunning, kSucceeded}},
      {"9-failed", {kFailed}},
  };
  for (const auto& [id, states] : ways) {
    bool created;
    ASSERT_TRUE(jobs_->Create(Request(id, "r" + id), &created).ok());
    for (JobState state : states) runs_.Set(id, state);
  }
  Start();
  EXPECT_EQ(Get("3-running").state, kQueued);
  EXPECT_EQ(Get("3-running").cause, "the server restarted");
  EXPECT_EQ(Get("4-pausing").state, kPaused);
  EXPECT_EQ(Get("5-paused").state, kPaused);
  EXPECT_EQ(Get("6-cancelling").state, kCancelled);
  EXPECT_THAT(States("7-cancelled"), ElementsAre(kQueued, kCancelled));
  EXPECT_EQ(Get("8-succeeded").state, kSucceeded);
  EXPECT_EQ(Get("9-failed").state, kFailed);
  EXPECT_EQ(dispatcher_->Submit(Request("", "r1-queued"))->id, "1-queued");
  runs_.Succeed("1-queued");
  runs_.Succeed("2-validating");
  EXPECT_THAT(runs_.Started(3),
              ElementsAre("1-queued", "2-validating", "3-running"));
}

TEST_F(JobDispatcherTest, OnAFullDiskJobsWaitAndSayWhy) {
  Faults faults;
  FaultSqliteVfs vfs(faults);
  const std::string path = ::testing::TempDir() + "/full_disk.db";
  std::filesystem::remove(path);
  auto jobs = *JobStore::Open(path);
  ScriptedRuns runs(*jobs);
  options_.retry_delay = absl::Milliseconds(1);
  JobDispatcher dispatcher(options_, *jobs,
                           [&runs](const Job& job, JobControl& control) {
                             runs.Execute(job, control);
                           });
  ASSERT_TRUE(dispatcher.Start().ok());
  ASSERT_TRUE(dispatcher.Submit(Request("first")).ok());
  ASSERT_TRUE(dispatcher.Submit(Request("second")).ok());
  runs.Started(1);
  runs.End("first", [&] {
    runs.Set("first", kSucceeded);
    faults.FailAt(1, ENOSPC, Faults::kFromThen);
  });
  // What the store says depends on which of its operations was the first.
  EXPECT_THAT(AwaitCause(dispatcher, "second", "waiting: it cannot begin: "),
              HasSubstr("full_disk.db"));
  faults.Disarm();
  EXPECT_THAT(runs.Started(2), ElementsAre("first", "second"));
  runs.Succeed("second");
  EXPECT_EQ(WaitForEnd(*jobs, "second", absl::Now() + kPatience)->state,
            kSucceeded);
}

// Records of which some cannot be written, or read.
class JobDispatcherRecordTest : public JobDispatcherTest {
 protected:
  JobDispatcherRecordTest() : JobDispatcherTest(NewPath()) {
    dispatcher_ = nullptr;
    options_.retry_delay = absl::Milliseconds(1);
  }
  static std::string NewPath() {
    for (const char* end : {"", "-wal", "-shm"}) {
      std::filesystem::remove(Path() + end);
    }
    return Path();
  }
  static std::string Path() {
    return absl::StrCat(
        ::testing::TempDir(), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void RefuseWritesWhere(const std::string& condition) {
    Execute(absl::StrCat("CREATE TRIGGER refuse BEFORE UPDATE ON jobs WHEN ",
                         condition,
                         " BEGIN SELECT RAISE(ABORT, 'no room'); END"));
  }
  void AllowWrites() { Execute("DROP TRIGGER refuse"); }

  void Execute(const std::string& sql) {
    auto database = SqliteDatabase::Open(Path());
    ASSERT_TRUE(database.ok()) << database.status();
    const absl::Status executed = database->Execute(sql.c_str());
    ASSERT_TRUE(executed.ok()) << executed;
  }
};

TEST_F(JobDispatcherRecordTest, StartsAndTakesJobsUpOnceTheyCanBeWritten) {
  const std::map<std::string, std::vector<JobState>> ways = {
      {"running", {kValidating, kRunning}},
      {"pausing", {kValidating, kPausing}},
      {"cancelling", {kValidating, kCancelling}},
  };
  for (const auto& [id, states] : ways) {
    bool created;
    ASSERT_TRUE(jobs_->Create(Request(id), &created).ok());
    for (JobState state : states) runs_.Set(id, state);
  }
  RefuseWritesWhere("true");
  Start();
  for (const auto& [id, states] : ways) {
    EXPECT_EQ(Get(id).state, states.back());
  }
  AllowWrites();
  AwaitState("pausing", kPaused);
  EXPECT_EQ(WaitForEnd(*jobs_, "cancelling", absl::Now() + kPatience)->state,
            kCancelled);
  EXPECT_THAT(runs_.Started(1), ElementsAre("running"));
  EXPECT_THAT(States("running"), ElementsAre(kQueued, kValidating, kRunning,
                                             kQueued, kValidating));
}

TEST_F(JobDispatcherRecordTest, AJobThatCannotBeginKeepsNoOtherWaiting) {
  for (const char* id : {"stuck", "next"}) {
    bool created;
    ASSERT_TRUE(jobs_->Create(Request(id), &created).ok());
  }
  RefuseWritesWhere("old.id = 'stuck'");
  Start();
  EXPECT_THAT(runs_.Started(1), ElementsAre("next"));
  runs_.Succeed("next");
  // From now on it is tried again and again.
  EXPECT_THAT(AwaitCause(*dispatcher_, "stuck", "waiting: it cannot begin: "),
              HasSubstr("no room"));
  AllowWrites();
  EXPECT_THAT(runs_.Started(2), ElementsAre("next", "stuck"));
}

TEST_F(JobDispatcherRecordTest,
       AnEndedRunThatCannotBeTakenBackGivesItsPlaceUp) {
  Start();
  SubmitAndRun("stuck");
  Submit("next");
  Cancel("stuck");
  RefuseWritesWhere("old.id = 'stuck'");
  runs_.End("stuck", [] {});  // it leaves no word
  EXPECT_THAT(runs_.Started(2), ElementsAre("stuck", "next"));
  EXPECT_EQ(Get("stuck").state, kCancelling);
  AllowWrites();
  EXPECT_EQ(WaitForEnd(*jobs_, "stuck", absl::Now() + kPatience)->state,
            kCancelled);
}

TEST_F(JobDispatcherRecordTest, StartsWithoutTheJobsWhoseRecordsAreDamaged) {
  for (const char* id : {"damaged", "next"}) {
    bool created;
    ASSERT_TRUE(jobs_->Create(Request(id), &created).ok());
  }
  Execute("UPDATE jobs SET record = x'ff' WHERE id = 'damaged'");
  Start();
  ASSERT_EQ(damaged_.size(), 1u);
  EXPECT_EQ(damaged_[0].code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(damaged_[0].ToString(), HasSubstr("jobs/damaged"));
  EXPECT_THAT(runs_.Started(1), ElementsAre("next"));
}

// Clients that pause, resume and cancel the same jobs at once while runs begin
// and stop: every job ends, and the store's table has been kept all the way.
TEST_F(JobDispatcherTest, RequestsMayRaceWithEachOtherAndWithRuns) {
  constexpr int kJobs = 8, kClients = 3, kRequests = 400;
  dispatcher_ = nullptr;
  options_.max_running = 2;
  // Runs end as asked or, after a while, with success.
  const auto execute = [this](const Job& job, JobControl& control) {
    jobs_->SetState(job.id, kRunning, "").status().IgnoreError();
    for (int i = 0; i < 1000 && !control.stopping(); ++i) {
      std::this_thread::yield();
    }
    if (control.stopping() || !jobs_->SetState(job.id, kSucceeded, "").ok()) {
      runs_.StopNow(job.id);
    }
  };
  JobDispatcher dispatcher(options_, *jobs_, execute);
  ASSERT_TRUE(dispatcher.Start().ok());
  for (int i = 0; i < kJobs; ++i) {
    ASSERT_TRUE(dispatcher.Submit(Request(absl::StrCat("j", i))).ok());
  }
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([&dispatcher, client] {
      std::mt19937 random(static_cast<uint32_t>(client));
      for (int i = 0; i < kRequests; ++i) {
        const std::string id = absl::StrCat("j", random() % kJobs);
        const auto change = random() % 100 == 0 ? JobChange::kCancel
                            : random() % 2 == 0 ? JobChange::kPause
                                                : JobChange::kResume;
        const auto job = dispatcher.Change(id, change);
        EXPECT_TRUE(job.ok() || absl::IsFailedPrecondition(job.status()))
            << job.status();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < kJobs; ++i) {
    const std::string id = absl::StrCat("j", i);
    dispatcher.Change(id, JobChange::kResume).status().IgnoreError();
    const auto job = WaitForEnd(*jobs_, id, absl::Now() + kPatience);
    ASSERT_TRUE(job.ok()) << id << " " << JobStateName(Get(id).state);
    EXPECT_NE(job->state, kFailed);
    const std::vector<JobState> states = States(id);
    for (size_t j = 1; j < states.size(); ++j) {
      EXPECT_TRUE(MayFollow(states[j - 1], states[j]));
    }
  }
  dispatcher.Shutdown();
}

}  // namespace
}  // namespace recurve
