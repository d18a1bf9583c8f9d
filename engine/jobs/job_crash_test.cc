// Jobs that take the server down: again and again, but not for ever.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/jobs/job_dispatcher.h"
#include "engine/jobs/scripted_runs.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

constexpr int kMost = JobDispatcher::kMaxFruitlessStarts;

// A server with one job. Its crashes leave the disk as it is at that instant.
class CrashingServer {
 public:
  CrashingServer() {
    std::filesystem::remove_all(Path());
    Start();
    EXPECT_TRUE(dispatcher_->Submit({.id = "j"}).ok());
  }
  ~CrashingServer() { End(); }

  void AwaitRun() { runs_->Started(1); }
  void Crash() {
    AwaitRun();
    const std::string before = Path();
    ++life_;
    for (const char* file : {"", "-wal"}) {
      std::filesystem::copy_file(
          before + file, Path() + file,
          std::filesystem::copy_options::overwrite_existing);
    }
    End();
    Start();
  }
  void Crash(int times) {
    for (int i = 0; i < times; ++i) Crash();
  }
  // In good order, while the job runs.
  void Restart() {
    AwaitRun();
    std::thread stops([this] {
      while (runs_->RequestedOf("j") != StopRequest::kShutdown) {
        std::this_thread::yield();
      }
      runs_->Stop("j");
    });
    dispatcher_->Shutdown();
    stops.join();
    dispatcher_ = nullptr;
    runs_ = std::make_unique<ScriptedRuns>(*jobs_);
    Dispatch();
  }
  void SaveCheckpoint(int64_t step) {
    AwaitRun();
    EXPECT_TRUE(jobs_->ReportCheckpoint("j", {step}).ok());
  }
  void Ask(JobChange change) {
    EXPECT_TRUE(dispatcher_->Change("j", change).ok());
  }

  ScriptedRuns& runs() { return *runs_; }
  Job job() { return *jobs_->Get("j"); }

 private:
  std::string Path() const {
    return absl::StrCat(::testing::TempDir(), "/crash", life_, ".db");
  }
  void Start() {
    jobs_ = *JobStore::Open(Path());
    runs_ = std::make_unique<ScriptedRuns>(*jobs_);
    Dispatch();
  }
  void Dispatch() {
    dispatcher_ = std::make_unique<JobDispatcher>(
        JobDispatcher::Options(), *jobs_,
        [runs = runs_.get()](const Job& job, JobControl& control) {
          runs->Execute(job, control);
        });
    EXPECT_TRUE(dispatcher_->Start().ok());
  }
  void End() {
    Ask(JobChange::kCancel);
    runs_->Stop("j");
    dispatcher_ = nullptr;
  }

  int life_ = 0;
  std::unique_ptr<JobStore> jobs_;
  std::unique_ptr<ScriptedRuns> runs_;
  std::unique_ptr<JobDispatcher> dispatcher_;
};

// One more crash than here and the job would be paused.
void ExpectAsManyCrashesAsAtFirst(CrashingServer& server) {
  server.Crash(kMost - 1);
  server.AwaitRun();
  EXPECT_EQ(server.job().state, JobState::kValidating);
  server.Crash();
  EXPECT_EQ(server.job().state, JobState::kPaused);
}

TEST(JobCrash, AJobThatAlwaysTakesTheServerDownIsPaused) {
  CrashingServer server;
  ExpectAsManyCrashesAsAtFirst(server);
  EXPECT_EQ(server.job().runs, kMost);
  EXPECT_EQ(server.job().cause,
            "began 10 times without getting to a new checkpoint before the "
            "server ended; see the server's log, then resume it: recurve "
            "resume j");
}

TEST(JobCrash, AResumeLetsItTryAgain) {
  CrashingServer server;
  server.Crash(kMost);
  server.Ask(JobChange::kResume);
  ExpectAsManyCrashesAsAtFirst(server);
}

TEST(JobCrash, ANewCheckpointEndsTheRow) {
  CrashingServer server;
  server.Crash(kMost - 1);
  server.SaveCheckpoint(7);
  server.Crash();
  ExpectAsManyCrashesAsAtFirst(server);
}

TEST(JobCrash, TheSameCheckpointAgainDoesNot) {
  CrashingServer server;
  server.SaveCheckpoint(7);
  server.Crash();
  for (int i = 0; i < kMost; ++i) {
    server.SaveCheckpoint(7);
    server.Crash();
  }
  EXPECT_EQ(server.job().state, JobState::kPaused);
}

TEST(JobCrash, AShutdownInGoodOrderEndsTheRow) {
  CrashingServer server;
  server.Crash(kMost - 1);
  server.Restart();
  ExpectAsManyCrashesAsAtFirst(server);
}

TEST(JobCrash, APauseEndsTheRow) {
  CrashingServer server;
  server.Crash(kMost - 1);
  server.AwaitRun();
  server.Ask(JobChange::kPause);
  server.runs().Stop("j");
  const absl::Time deadline = absl::Now() + kPatience;
  while (server.job().state != JobState::kPaused && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  server.Ask(JobChange::kResume);
  server.runs().Started(2);
  ExpectAsManyCrashesAsAtFirst(server);
}

}  // namespace
}  // namespace recurve
