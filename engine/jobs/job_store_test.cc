#include "engine/jobs/job_store.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;
using ::testing::HasSubstr;

v1::TrainSpec Spec(const std::string& model = "models/m") {
  v1::TrainSpec spec;
  spec.set_model(model);
  return spec;
}

class JobStoreTest : public ::testing::Test {
 protected:
  Job Create(const std::string& id, const std::string& request_id = "") {
    bool created = false;
    const auto job = store_->Create({Spec(), id, request_id}, &created);
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(created);
    return *job;
  }
  absl::Status Error(const std::string& id, const std::string& request_id,
                     const v1::TrainSpec& spec) {
    bool created = true;
    const absl::Status status =
        store_->Create({spec, id, request_id}, &created).status();
    EXPECT_FALSE(created);
    return status;
  }
  JobMetrics Metrics(int64_t step, double loss) {
    JobMetrics metrics;
    metrics.step = step;
    metrics.loss = loss;
    return metrics;
  }

  std::unique_ptr<JobStore> store_ = *JobStore::Open(":memory:");
};

TEST_F(JobStoreTest, ANewJobIsQueuedAndThatIsEventZero) {
  const Job job = Create("first");
  EXPECT_EQ(job.state, kQueued);
  EXPECT_FALSE(job.start_time.has_value());
  const auto events = store_->Events("first", 0, 0);
  ASSERT_EQ(events->size(), 1u);
  EXPECT_EQ((*events)[0].number, 0);
  EXPECT_EQ(std::get<Job>((*events)[0].what).id, "first");
}

TEST_F(JobStoreTest, ChoosesDistinctIds) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) ids.insert(Create("").id);
  EXPECT_EQ(ids.size(), 100u);
}

TEST_F(JobStoreTest, RefusesIdsInUseAndBadOnes) {
  Create("a");
  EXPECT_EQ(Error("a", "", Spec()).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Error("A b", "", Spec()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(JobStoreTest, ARequestIdMakesOneJob) {
  Create("a", "request");
  bool created = true;
  const auto again = store_->Create({Spec(), "b", "request"}, &created);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->id, "a");
  EXPECT_FALSE(created);
  EXPECT_EQ(store_->FindRequest("request")->id, "a");
  EXPECT_EQ(store_->FindRequest("other").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->FindRequest("").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Error("c", "request", Spec("models/other")).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(JobStoreTest, KeepsNoMoreThanItMay) {
  JobStoreLimits limits;
  limits.max_jobs = 2;
  store_ = *JobStore::Open(":memory:", limits);
  Create("a", "request");
  Create("b");
  EXPECT_EQ(Error("c", "", Spec()).code(),
            absl::StatusCode::kResourceExhausted);
  bool created = true;
  EXPECT_EQ(store_->Create({Spec(), "", "request"}, &created)->id, "a");
}

TEST_F(JobStoreTest, ADeletedJobLeavesNothingAndMakesRoom) {
  JobStoreLimits limits;
  limits.max_jobs = 2;
  store_ = *JobStore::Open(":memory:", limits);
  Create("a");
  Create("b", "request");
  const absl::Status refused = store_->Delete("b");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("cancel it first"));
  EXPECT_THAT(std::string(Error("c", "", Spec()).message()),
              HasSubstr("delete-job"));
  ASSERT_TRUE(store_->SetState("b", kCancelled, "").ok());
  ASSERT_TRUE(store_->Delete("b").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get("b").status()));
  EXPECT_TRUE(absl::IsNotFound(store_->Delete("b")));
  EXPECT_EQ(store_->List(0, "")->jobs.size(), 1u);
  Create("b", "request");
  EXPECT_EQ(store_->Events("b", 0, 0)->size(), 1u);
}

TEST_F(JobStoreTest, WaitersLearnThatTheJobIsDeleted) {
  Create("a");
  ASSERT_TRUE(store_->SetState("a", kCancelled, "").ok());
  int calls = 0;
  const auto subscription = *store_->Subscribe("a", [&calls] { ++calls; });
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(calls, 2);
}

TEST_F(JobStoreTest, ListsNewestFirstInStablePages) {
  for (const char* id : {"a", "b", "c", "d"}) Create(id);
  const auto first = store_->List(2, "");
  ASSERT_EQ(first->jobs.size(), 2u);
  EXPECT_EQ(first->jobs[0].id, "d");
  EXPECT_EQ(first->jobs[1].id, "c");
  Create("e");  // moves nothing
  const auto second = store_->List(2, first->next_page_token);
  ASSERT_EQ(second->jobs.size(), 2u);
  EXPECT_EQ(second->jobs[0].id, "b");
  EXPECT_EQ(second->jobs[1].id, "a");
  EXPECT_EQ(second->next_page_token, "");
  EXPECT_EQ(store_->List(0, "")->jobs.size(), 5u);
  EXPECT_EQ(store_->List(-1, "").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store_->List(1, "x").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(JobStoreTest, StateChangesFollowTheTableAndSetTimes) {
  Create("a");
  Job job = *store_->SetState("a", kValidating, "starting");
  EXPECT_EQ(job.state, kValidating);
  EXPECT_EQ(job.cause, "starting");
  ASSERT_TRUE(job.start_time.has_value());
  EXPECT_FALSE(job.end_time.has_value());
  const auto start = job.start_time;
  job = *store_->SetState("a", kRunning, "", [](Job& j) { j.max_steps = 7; });
  EXPECT_EQ(job.max_steps, 7);
  job = *store_->SetState("a", kSucceeded, "");
  EXPECT_EQ(job.start_time, start);
  EXPECT_TRUE(job.end_time.has_value());

  const absl::Status status =
      store_->SetState("a", kRunning, "", [](Job& j) { j.max_steps = 9; })
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("SUCCEEDED and cannot become RUNNING"));
  EXPECT_EQ(store_->Get("a")->max_steps, 7);
  EXPECT_EQ(store_->Events("a", 0, 0)->size(), 4u);
}

TEST_F(JobStoreTest, ReportsUpdateTheRecord) {
  Create("a");
  ASSERT_TRUE(store_->Report("a", Metrics(10, 2.5), {DeviceTime()}).ok());
  ASSERT_TRUE(store_->Warn("a", "careful").ok());
  const Job job = *store_->Get("a");
  EXPECT_EQ(job.step, 10);
  EXPECT_EQ(job.loss, 2.5);
  ASSERT_EQ(job.devices.size(), 1u);
  const auto events = *store_->Events("a", 1, 0);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(std::get<JobMetrics>(events[0].what).step, 10);
  EXPECT_EQ(std::get<JobWarning>(events[1].what).text, "careful");
}

TEST_F(JobStoreTest, EvaluationsAndCheckpointsUpdateTheRecord) {
  Create("a");
  ASSERT_TRUE(store_->ReportEvaluation("a", {5, 2.5, 0.5, 7}, true).ok());
  ASSERT_TRUE(store_->ReportEvaluation("a", {6, 3.5, 0.25, 7}, false).ok());
  ASSERT_TRUE(store_->ReportCheckpoint("a", {4, 1000, 0.5}).ok());
  const Job job = *store_->Get("a");
  EXPECT_EQ(job.best->step, 5);
  EXPECT_EQ(job.best->loss, 2.5);
  EXPECT_EQ(job.checkpoint_step, 4);
  EXPECT_EQ(job.step, 0);
  const auto events = *store_->Events("a", 1, 0);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(std::get<JobEvaluation>(events[1].what).accuracy, 0.25);
  EXPECT_EQ(std::get<JobCheckpoint>(events[2].what).size_bytes, 1000);
}

TEST_F(JobStoreTest, EventsComeInPiecesFromAnyNumber) {
  Create("a");
  for (int i = 1; i < 2500; ++i) {
    ASSERT_TRUE(store_->Report("a", Metrics(i, 0), {}).ok());
  }
  EXPECT_EQ(store_->Events("a", 0, 0)->size(), 1000u);
  EXPECT_EQ(store_->Events("a", 0, 5000)->size(), 1000u);
  const auto some = *store_->Events("a", 2490, 3);
  ASSERT_EQ(some.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(some[i].number, 2490 + i);
  EXPECT_EQ(store_->Events("a", 2490, 100)->size(), 10u);
  EXPECT_TRUE(store_->Events("a", 2500, 0)->empty());
  EXPECT_TRUE(store_->Events("a", int64_t{1} << 62, 0)->empty());
  EXPECT_EQ(store_->Events("a", -1, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(JobStoreTest, BeyondTheLimitOnlyStatesAreKept) {
  JobStoreLimits limits;
  limits.max_events_per_job = 4;
  store_ = *JobStore::Open(":memory:", limits);
  Create("a");
  for (int i = 1; i <= 10; ++i) {
    ASSERT_TRUE(store_->Report("a", Metrics(i, 0), {}).ok());
  }
  ASSERT_TRUE(store_->SetState("a", kCancelled, "").ok());
  const auto events = *store_->Events("a", 0, 0);
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(std::get<JobMetrics>(events[2].what).step, 2);
  EXPECT_THAT(std::get<JobWarning>(events[3].what).text,
              HasSubstr("no further"));
  EXPECT_EQ(std::get<Job>(events[4].what).state, kCancelled);
  EXPECT_EQ(store_->Get("a")->step, 10);
}

// Who watches a job leaves with that event.
TEST_F(JobStoreTest, TheEndIsTheLastEvent) {
  Create("a");
  ASSERT_TRUE(store_->SetState("a", kCancelled, "").ok());
  for (const absl::Status& status :
       {store_->Warn("a", "late"), store_->Report("a", Metrics(1, 0), {}),
        store_->ReportEvaluation("a", {}, true),
        store_->ReportCheckpoint("a", {})}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("CANCELLED"));
  }
  EXPECT_EQ(store_->Events("a", 0, 0)->size(), 2u);
  EXPECT_EQ(store_->Get("a")->step, 0);
}

TEST_F(JobStoreTest, UnknownJobsAreNotFound) {
  EXPECT_EQ(store_->Get("x").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->SetState("x", kRunning, "").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Report("x", {}, {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Events("x", 0, 0).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Subscribe("x", [] {}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(JobStoreTest, SubscribersAreToldUntilTheyLeave) {
  Create("a");
  Create("b");
  int calls = 0;
  auto subscription = store_->Subscribe("a", [&] { ++calls; });
  ASSERT_TRUE(subscription.ok());
  EXPECT_EQ(calls, 1);
  ASSERT_TRUE(store_->Warn("a", "").ok());
  ASSERT_TRUE(store_->Warn("b", "").ok());
  EXPECT_EQ(calls, 2);
  subscription->reset();
  ASSERT_TRUE(store_->Warn("a", "").ok());
  EXPECT_EQ(calls, 2);
}

// A watcher that reads after each call sees every event once, in order, while
// two threads report and a second watcher comes and goes.
TEST_F(JobStoreTest, WatchersMissNothingWhileOthersWrite) {
  constexpr int kReports = 2000;
  Create("a");
  std::vector<int64_t> seen;
  int64_t next = 0;
  absl::Notification done;
  auto watch = store_->Subscribe("a", [&] {
    while (true) {
      const auto events = *store_->Events("a", next, 7);
      if (events.empty()) return;
      for (const JobEvent& event : events) {
        seen.push_back(event.number);
        const Job* job = std::get_if<Job>(&event.what);
        if (job != nullptr && HasEnded(job->state)) done.Notify();
      }
      next += static_cast<int64_t>(events.size());
    }
  });
  const auto report = [&] {
    for (int i = 0; i < kReports; ++i) {
      ASSERT_TRUE(store_->Report("a", Metrics(i, 0), {}).ok());
    }
  };
  std::thread first(report), second(report);
  for (int i = 0; i < 200; ++i) {
    std::atomic<int> calls = 0;
    auto other = store_->Subscribe("a", [&] { ++calls; });
    EXPECT_GE(calls.load(), 1);
  }
  first.join();
  second.join();
  ASSERT_TRUE(store_->SetState("a", kCancelled, "").ok());
  done.WaitForNotification();
  watch->reset();
  ASSERT_EQ(seen.size(), 2 * kReports + 2u);
  for (size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], static_cast<int64_t>(i));
  }
}

TEST_F(JobStoreTest, WaitsForEventsAndForTheEnd) {
  Create("a");
  const absl::Time soon = absl::Now() + absl::Milliseconds(20);
  EXPECT_TRUE(*WaitForEvent(*store_, "a", 0, soon));
  EXPECT_FALSE(*WaitForEvent(*store_, "a", 1, soon));
  EXPECT_EQ(WaitForEnd(*store_, "a", soon).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  std::thread later([&] {
    absl::SleepFor(absl::Milliseconds(20));
    ASSERT_TRUE(store_->Warn("a", "").ok());
    absl::SleepFor(absl::Milliseconds(20));
    ASSERT_TRUE(store_->SetState("a", kCancelled, "").ok());
  });
  EXPECT_TRUE(*WaitForEvent(*store_, "a", 1, absl::InfiniteFuture()));
  EXPECT_EQ(WaitForEnd(*store_, "a", absl::InfiniteFuture())->state,
            kCancelled);
  EXPECT_FALSE(*WaitForEvent(*store_, "a", 3, absl::InfiniteFuture()));
  later.join();
}

TEST_F(JobStoreTest, AChangeOfNumbersIsNoEvent) {
  Create("a");
  int calls = 0;
  auto subscription = store_->Subscribe("a", [&] { ++calls; });
  EXPECT_EQ(store_->Change("a", [](Job& job) { job.max_steps = 5; })->max_steps,
            5);
  EXPECT_EQ(store_->Get("a")->max_steps, 5);
  EXPECT_EQ(store_->Events("a", 0, 0)->size(), 1u);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(store_->Change("x", [](Job&) {}).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace recurve
