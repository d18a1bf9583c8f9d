// What is refused, given up or kept within bounds.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/serve/batcher.h"
#include "engine/serve/batcher_test_util.h"
#include "engine/serve/retry_hint.h"
#include "engine/serve/test_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;
using Kind = CarriedState::Kind;

TEST(BatcherLimitsTest, BidirectionalModelsHaveNoStates) {
  Reference reference(kBidirectional);
  Fixture fixture("cpu:1");
  Answer answer;
  BatcherRequest request = Request(
      reference.version(), RandomBatch(reference.model(), {5}, 1), answer);
  request.states = {
      CarriedState::Create(reference.model().carry_size(), Kind::kHostOnly)};
  fixture.batcher.Enqueue(std::move(request));
  EXPECT_EQ(answer.Wait().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(answer.status.message()),
              HasSubstr("m is bidirectional"));
}

// --- Time ---

TEST(BatcherLimitsTest, WhoseDeadlinePassesWhileItWaitsIsToldThen) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16);
  options.now = clock.now();
  Fixture fixture("cpu:1", options);
  Gate gate(fixture.devices.device(0));
  Answer expires, stays, cancelled;
  const SequenceBatch batch = RandomBatch(reference.model(), {5}, 1);
  BatcherRequest request = Request(reference.version(), batch, expires);
  request.control.deadline = clock.Now() + absl::Seconds(1);
  fixture.batcher.Enqueue(request);
  fixture.batcher.Enqueue(Request(reference.version(), batch, stays));
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  request = Request(reference.version(), batch, cancelled);
  request.control.cancelled = flag;
  fixture.batcher.Enqueue(request);
  fixture.batcher.Poll();
  EXPECT_FALSE(expires.done.HasBeenNotified());

  clock.Pass(absl::Seconds(1));
  *flag = true;
  fixture.batcher.Poll();  // or the batcher's own thread
  EXPECT_EQ(expires.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(stays.done.HasBeenNotified());
  gate.Open();
  EXPECT_TRUE(stays.Wait().ok());
  EXPECT_EQ(fixture.batcher.statistics().SnapshotOf("m").rows, 5);
  EXPECT_EQ(fixture.batcher.statistics().SnapshotOf("m").cancelled, 2);
}

TEST(BatcherLimitsTest, HopelessDeadlinesAreRefusedWithAHint) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16);
  options.now = clock.now();
  Fixture fixture("cpu:1", options);
  Answer measured, waits, refused;
  const auto request = [&](Answer& answer) {
    BatcherRequest request = Request(
        reference.version(), RandomBatch(reference.model(), {64}, 1), answer);
    request.flow = "one";
    request.control.deadline = clock.Now() + absl::Nanoseconds(1);
    return request;
  };
  fixture.batcher.Enqueue(request(measured));
  ASSERT_TRUE(measured.Wait().ok());
  Gate gate(fixture.devices.device(0));
  fixture.batcher.Enqueue(request(waits));
  BatcherRequest hopeless = request(refused);
  hopeless.accepted = [] { ADD_FAILURE() << "work for a refused request"; };
  fixture.batcher.Enqueue(std::move(hopeless));
  EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("64 rows wait before"));
  EXPECT_TRUE(RetryHint(refused.status).has_value());
  gate.Open();
  EXPECT_TRUE(waits.Wait().ok());
  EXPECT_EQ(fixture.batcher.statistics().SnapshotOf("m").refused, 1);
}

// Ten thousand rows a request wait, without deadlines. How long these take the
// hint of a request of lower priority says.
TEST(BatcherLimitsTest, AShortRequestGoesBeforeItsClientsBacklog) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16, /*max_chunk_rows=*/8);
  options.now = clock.now();
  Fixture fixture("cpu:1", options);
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<Answer>> backlog;
  const auto request = [&](int64_t rows, Answer& answer) {
    BatcherRequest request = Request(
        reference.version(), RandomBatch(reference.model(), {rows}, 1), answer);
    request.flow = "one";
    return request;
  };
  Answer measured, hopeless, answered;
  fixture.batcher.Enqueue(request(64, measured));
  ASSERT_TRUE(measured.Wait().ok());
  {
    Gate gate(fixture.devices.device(0));
    for (int i = 0; i < 10; ++i) {
      backlog.push_back(std::make_unique<Answer>());
      BatcherRequest bulk = request(10000, *backlog.back());
      bulk.control.cancelled = cancelled;
      fixture.batcher.Enqueue(std::move(bulk));
    }
    BatcherRequest probe = request(5, hopeless);
    probe.priority = 2;
    probe.control.deadline = clock.Now() + absl::Nanoseconds(1);
    fixture.batcher.Enqueue(std::move(probe));
    ASSERT_TRUE(absl::IsResourceExhausted(hopeless.Wait()));
    const auto backlog_takes = RetryHint(hopeless.status);
    ASSERT_TRUE(backlog_takes.has_value());

    BatcherRequest urgent = request(5, answered);
    urgent.control.deadline = clock.Now() + *backlog_takes / 2;
    urgent.done = [cancelled, done = urgent.done](const absl::Status& status) {
      *cancelled = true;
      done(status);
    };
    fixture.batcher.Enqueue(std::move(urgent));
  }
  EXPECT_TRUE(answered.Wait().ok()) << answered.status;
  for (const auto& answer : backlog) {
    EXPECT_TRUE(absl::IsCancelled(answer->Wait()));
  }
}

TEST(BatcherLimitsTest, AFullQueueRefusesWithAHint) {
  Reference reference(kSru);
  Batcher::Options options = Options(16);
  options.max_enqueued = 1;
  Fixture fixture("cpu:1", options);
  Answer first, refused, later;
  const SequenceBatch batch = RandomBatch(reference.model(), {5}, 1);
  {
    Gate gate(fixture.devices.device(0));
    fixture.batcher.Enqueue(Request(reference.version(), batch, first));
    BatcherRequest request = Request(reference.version(), batch, refused);
    request.accepted = [] { ADD_FAILURE() << "work for a refused request"; };
    fixture.batcher.Enqueue(std::move(request));
    EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(RetryHint(refused.status).has_value());
  }
  EXPECT_TRUE(first.Wait().ok());
  // The place is free before the answer is given.
  BatcherRequest request = Request(reference.version(), batch, later);
  int accepted = 0;
  request.accepted = [&] { ++accepted; };
  fixture.batcher.Enqueue(std::move(request));
  EXPECT_EQ(accepted, 1);
  EXPECT_TRUE(later.Wait().ok());
}

// --- Memory ---

TEST(BatcherLimitsTest, WhatIsReservedIsWhatTheLargestPassUses) {
  Reference reference(kSru);
  Fixture fixture(Room(BytesOf(reference.model(), 8)), Options(8));
  const std::vector<int64_t> ones(30, 1);
  Answer answer;
  const SequenceBatch batch = RandomBatch(reference.model(), ones, 1);
  fixture.batcher.Enqueue(Request(reference.version(), batch, answer));
  ASSERT_TRUE(answer.Wait().ok()) << answer.status;
  EXPECT_EQ(answer.outputs, reference.Outputs(batch));
  const OwnerMemory owner =
      fixture.devices.device(0).ledger().Snapshot().owners[0];
  EXPECT_EQ(owner.owner, "m");
  EXPECT_EQ(owner.used_high_water, BytesOf(reference.model(), 8));
  EXPECT_EQ(owner.reserved_high_water, BytesOf(reference.model(), 8));
}

TEST(BatcherLimitsTest, WhatIsNotCutGrowsTheArenaFirst) {
  Reference reference(kBidirectional);
  const int64_t bytes = InferencePlan(reference.model(), {40, 1}).total();
  Fixture fixture(Room(bytes), Options(8));
  Answer small, large, too_large;
  const SequenceBatch batch = RandomBatch(reference.model(), {2, 40, 3}, 1);
  fixture.batcher.Enqueue(Request(
      reference.version(), RandomBatch(reference.model(), {4}, 1), small));
  fixture.batcher.Enqueue(Request(reference.version(), batch, large));
  EXPECT_TRUE(small.Wait().ok());
  ASSERT_TRUE(large.Wait().ok()) << large.status;
  EXPECT_EQ(large.outputs, reference.Outputs(batch));
  fixture.batcher.Enqueue(Request(reference.version(),
                                  RandomBatch(reference.model(), {2, 60}, 1),
                                  too_large));
  EXPECT_EQ(too_large.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_large.status.message()),
              HasSubstr("sequence 1 has 60 rows"));
}

TEST(BatcherLimitsTest, WhereTrainingHasAllOfADevicesMemoryAnotherServes) {
  Reference reference(kSru);
  const int64_t bytes = BytesOf(reference.model(), 8);
  Fixture fixture(absl::StrCat(Room(bytes), ",", Room(bytes)), Options(8));
  for (const int full : {0, 1}) {
    for (const int rank : {0, 1}) Gate(fixture.devices.device(rank)).Open();
    MemoryPlan plan;
    plan.gradients = 1;
    const auto training =
        *fixture.devices.device(full).ledger().Reserve("jobs/x", plan);
    Answer answer;
    fixture.batcher.Enqueue(Request(
        reference.version(), RandomBatch(reference.model(), {5}, 1), answer));
    EXPECT_TRUE(answer.Wait().ok()) << answer.status;
    fixture.runner.Drop(*reference.version());
  }
}

TEST(BatcherLimitsTest, AVersionThatIsDroppedLeavesNothing) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(8));
  Answer answer;
  fixture.batcher.Enqueue(Request(
      reference.version(), RandomBatch(reference.model(), {5}, 1), answer));
  EXPECT_TRUE(answer.Wait().ok());
  // The device has left the version when it comes to another task, and so to
  // the next.
  for (int i = 0; i < 2; ++i) Gate(fixture.devices.device(0)).Open();
  fixture.runner.Drop(*reference.version());
  Gate(fixture.devices.device(0)).Open();
  const LedgerSnapshot memory = fixture.devices.device(0).ledger().Snapshot();
  ASSERT_EQ(memory.owners.size(), 1u);
  EXPECT_EQ(memory.owners[0].owner, "workspace");
  EXPECT_EQ(memory.used_bytes, 0);
}

}  // namespace
}  // namespace recurve
