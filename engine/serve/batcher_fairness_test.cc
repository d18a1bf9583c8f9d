// Who goes into a pass, and when.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/serve/batcher.h"
#include "engine/serve/batcher_test_util.h"
#include "engine/serve/test_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using Kind = CarriedState::Kind;

TEST(BatcherFairnessTest, StepsOfManySessionsAreOnePass) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(256));
  std::vector<std::shared_ptr<CarriedState>> states;
  std::vector<std::unique_ptr<Answer>> answers;
  {
    Gate gate(fixture.devices.device(0));
    for (uint32_t i = 0; i < 200; ++i) {
      states.push_back(
          CarriedState::Create(reference.model().carry_size(), Kind::kPooled));
      answers.push_back(std::make_unique<Answer>());
      BatcherRequest request =
          Request(reference.version(), RandomBatch(reference.model(), {1}, i),
                  *answers.back());
      request.states = {states.back()};
      request.flow = absl::StrCat(i);
      fixture.batcher.Enqueue(std::move(request));
    }
  }
  for (const auto& answer : answers) EXPECT_TRUE(answer->Wait().ok());
  const ServingCounts counts = fixture.batcher.statistics().SnapshotOf("m");
  EXPECT_EQ(counts.passes, 1);
  EXPECT_EQ(counts.rows, 200);
  EXPECT_EQ(counts.succeeded.count, 200);
  EXPECT_EQ(counts.pending, 0);
}

TEST(BatcherFairnessTest, ShortRequestsDoNotWaitForALongOne) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(64, 16));
  std::atomic<int64_t> long_rows = 0;
  Answer long_answer;
  BatcherRequest request =
      Request(reference.version(), RandomBatch(reference.model(), {2000}, 1),
              long_answer);
  request.flow = "long";
  request.consume = [&](const ChunkRows& rows) {
    long_rows += rows.chunk.num_rows;
    return absl::OkStatus();
  };
  std::vector<std::unique_ptr<Answer>> answers;
  {
    Gate gate(fixture.devices.device(0));
    fixture.batcher.Enqueue(std::move(request));
    for (uint32_t i = 0; i < 12; ++i) {
      answers.push_back(std::make_unique<Answer>());
      BatcherRequest other =
          Request(reference.version(), RandomBatch(reference.model(), {4}, i),
                  *answers.back());
      other.flow = "short";
      const auto done = other.done;
      other.done = [&, done](const absl::Status& status) {
        // All are in the first pass, with one chunk of the long one.
        EXPECT_LE(long_rows, 16);
        done(status);
      };
      fixture.batcher.Enqueue(std::move(other));
    }
  }
  for (const auto& answer : answers) EXPECT_TRUE(answer->Wait().ok());
  EXPECT_TRUE(long_answer.Wait().ok());
  EXPECT_EQ(long_rows, 2000);
}

TEST(BatcherFairnessTest, HigherPrioritiesGoFirst) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(4));
  absl::Mutex mutex;
  std::vector<int> order;
  std::vector<std::unique_ptr<Answer>> answers;
  {
    Gate gate(fixture.devices.device(0));
    for (const int priority : {3, 1, 2}) {
      answers.push_back(std::make_unique<Answer>());
      BatcherRequest request =
          Request(reference.version(), RandomBatch(reference.model(), {4}, 1),
                  *answers.back());
      request.priority = priority;
      const auto done = request.done;
      request.done = [&, done, priority](const absl::Status& status) {
        {
          absl::MutexLock lock(&mutex);
          order.push_back(priority);
        }
        done(status);
      };
      fixture.batcher.Enqueue(std::move(request));
    }
  }
  for (const auto& answer : answers) EXPECT_TRUE(answer->Wait().ok());
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(BatcherFairnessTest, APassThatIsNotFullWaitsForMoreRequests) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16);
  options.now = clock.now();
  options.batch_timeout = absl::Seconds(5);
  Fixture fixture("cpu:1", options);
  const SequenceBatch batch = RandomBatch(reference.model(), {5}, 1);
  Answer a, b, c, d;
  for (Answer* answer : {&a, &b, &c, &d}) {  // the last fills it
    fixture.batcher.Enqueue(Request(reference.version(), batch, *answer));
    clock.Pass(absl::Nanoseconds(1));  // they come one after another
  }
  for (Answer* answer : {&a, &b, &c}) EXPECT_TRUE(answer->Wait().ok());
  clock.Pass(absl::Seconds(5));
  fixture.batcher.Poll();
  EXPECT_TRUE(d.Wait().ok());
}

// Of one that is always in use.
TEST(BatcherFairnessTest, AModelGetsItsTurnOnAnothersMemory) {
  Reference a(kSru, "a"), b(kMean, "b");
  Fixture fixture(Room(std::max(BytesOf(a.model(), 8), BytesOf(b.model(), 8))),
                  Options(8));
  std::atomic<bool> b_done = false;
  absl::Notification a_done;
  const SequenceBatch batch = RandomBatch(a.model(), {8}, 1);
  std::function<void()> send = [&] {
    BatcherRequest request;
    request.version = a.version();
    request.batch = batch;
    request.consume = [&](const ChunkRows&) { return absl::OkStatus(); };
    request.done = [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      b_done ? a_done.Notify() : send();
    };
    fixture.batcher.Enqueue(std::move(request));
  };
  {
    Gate gate(fixture.devices.device(0));
    send();
  }
  Answer answer;
  fixture.batcher.Enqueue(
      Request(b.version(), RandomBatch(b.model(), {5}, 1), answer));
  EXPECT_TRUE(answer.Wait().ok()) << answer.status;
  b_done = true;
  a_done.WaitForNotification();
}

}  // namespace
}  // namespace recurve
