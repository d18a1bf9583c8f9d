// Jobs on devices whose memory is limited, or held by others.
#include <cstdint>
#include <string>
#include <thread>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/jobs/job_execution_test_util.h"
#include "engine/schedule/memory_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using JobMemoryTest = JobExecutionFixture;

// Of a device of one thread that has so much for its jobs.
std::string Cpu(int64_t bytes) {
  return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
}

TEST_F(JobMemoryTest, BudgetsDoNotChangeTheWeights) {
  for (const char* spec : {kTextSpec, kSequencesSpec}) {
    const Job unlimited = Run(Submit(spec), "cpu:1,cpu:1");
    const Job limited =
        Run(Submit(spec), absl::StrCat(Cpu(2000), ",", Cpu(1 << 20)));
    ASSERT_EQ(limited.state, kSucceeded) << limited.cause;
    EXPECT_EQ(Parameters(limited), Parameters(unlimited));
    EXPECT_EQ(unlimited.devices.size(), 2);
    EXPECT_EQ(limited.devices.size(), 1);  // the other is too small
    EXPECT_EQ(limited.devices[0].device, "devices/1");
  }
}

TEST_F(JobMemoryTest, GoesOnWithinOtherBudgets) {
  const Job whole = Run(Submit(kTextSpec), "cpu:1");
  const std::string id = Submit(kTextSpec);
  Run(id, absl::StrCat(Cpu(2000), ",", Cpu(1 << 20), ",cpu:1"), 20,
      [&](JobControl& control) { Pause(id, control); });
  ASSERT_EQ(jobs_->Get(id)->state, kPaused);
  const Job job = GoOn(id, Cpu(1 << 20));
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(Parameters(job), Parameters(whole));
}

TEST_F(JobMemoryTest, WhatFitsOnNoDeviceFailsAndSaysWhatWould) {
  const Job job = Run(Submit(kTextSpec,
                             "loader { batch_size: 20 unroll: 6 } "
                             "trainer { micro_batch_rows: 1024 }"),
                      absl::StrCat(Cpu(2000), ",", Cpu(30000)));
  EXPECT_EQ(job.state, kFailed);
  EXPECT_THAT(job.cause, StartsWith("RESOURCE_EXHAUSTED: training needs "));
  EXPECT_THAT(job.cause, HasSubstr("activations"));
  EXPECT_THAT(job.cause,
              HasSubstr("the largest trainer.micro_batch_rows that fits is "));
}

TEST_F(JobMemoryTest, WaitsForMemoryThatOthersHold) {
  DevicePool pool(*ParseDevices(Cpu(1 << 20)));
  Ledger& ledger = pool.device(0).ledger();
  MemoryPlan all;
  all.weights = 1 << 20;
  auto other = *ledger.Reserve("trainers/other", all);
  const std::string id = Submit(kTextSpec);
  std::thread releasing([&] {
    // Before it: QUEUED, VALIDATING.
    EXPECT_TRUE(*WaitForEvent(*jobs_, id, 2, absl::Now() + absl::Minutes(4)));
    const Job waits = *jobs_->Get(id);
    EXPECT_EQ(waits.state, kValidating);
    EXPECT_THAT(waits.cause, AllOf(StartsWith("waits for memory: needs "),
                                   HasSubstr("trainers/other 1.0 MiB")));
    other.Release();
  });
  const Job job = RunOn(pool, id);
  releasing.join();
  EXPECT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_THAT(See(id).warnings,
              ElementsAre(AllOf(StartsWith("waits for memory: needs "),
                                HasSubstr("trainers/other 1.0 MiB"))));
  const absl::StatusOr<std::vector<JobEvent>> events = jobs_->Events(id, 0, 0);
  ASSERT_TRUE(events.ok()) << events.status();
  for (const JobEvent& event : *events) {
    const auto* now = std::get_if<Job>(&event.what);
    if (now == nullptr || now->state != kRunning) continue;
    EXPECT_EQ(now->cause, "");
  }
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, WorkspacePlan(1).total());
}

// Others go on with what it will need of the other devices.
TEST_F(JobMemoryTest, HoldsNothingWhileOneOfItsDevicesIsFull) {
  DevicePool pool(*ParseDevices(absl::StrCat(Cpu(1 << 20), ",", Cpu(1 << 20))));
  MemoryPlan all;
  all.weights = 1 << 20;
  auto other = *pool.device(1).ledger().Reserve("trainers/other", all);
  const std::string id = Submit(kTextSpec);
  std::thread releasing([&] {
    EXPECT_TRUE(*WaitForEvent(*jobs_, id, 2, absl::Now() + absl::Minutes(4)));
    EXPECT_THAT(jobs_->Get(id)->cause, HasSubstr(" of devices/1; held by "));
    EXPECT_TRUE(pool.device(0).ledger().TryReserve("models/m", all).ok());
    other.Release();
  });
  const Job job = RunOn(pool, id);
  releasing.join();
  EXPECT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.devices.size(), 2u);
}

// Serving's part is left, though with it the job could have all devices.
TEST_F(JobMemoryTest, IsRefusedWhereServingsPartLeavesTooLittle) {
  DevicePool all(*ParseDevices(Cpu(1 << 20)));
  ASSERT_EQ(RunOn(all, Submit(kTextSpec)).state, kSucceeded);
  const int64_t enough = all.device(0).ledger().Snapshot().reserved_high_water -
                         WorkspacePlan(1).total();
  for (const int64_t bytes : {2 * enough, 2 * enough - 2}) {
    DevicePool pool(*ParseDevices(Cpu(bytes)), CreateBackend,
                    {.serving_memory_share = 0.5});
    const Job job = RunOn(pool, Submit(kTextSpec));
    if (bytes == 2 * enough) {
      EXPECT_EQ(job.state, kSucceeded) << job.cause;
    } else {
      EXPECT_EQ(job.state, kFailed);
      EXPECT_THAT(job.cause,
                  HasSubstr(" for serving (--serving_memory_share); "));
    }
  }
}

}  // namespace
}  // namespace recurve
