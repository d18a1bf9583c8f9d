#include "engine/serve/batch_runner.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/model/executor_test_util.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/test_models.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

ModelHandle Version(const char* config, const std::string& name) {
  const TestExecutor e(config);
  ModelHandle version = ModelVersion::InMemory(
      *Model::Create(e.model().config()), e.parameters());
  std::const_pointer_cast<ModelVersion>(version)->name = name;
  return version;
}

constexpr int64_t kRows = 8;  // of a pass

// What a device holds for the model.
int64_t BytesOf(const ModelHandle& version, int64_t rows = kRows) {
  return InferencePlan(*version->model, {rows, rows}).total();
}

// A device of one thread with room for this much.
std::string Room(int64_t bytes) {
  return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
}

struct Fixture {
  explicit Fixture(const std::string& specs,
                   const DeviceOptions& options = DeviceOptions())
      : devices(*ParseDevices(specs), CreateBackend, options),
        runner(devices, {.max_batch_rows = kRows}) {}

  Ledger& ledger(int rank = 0) { return devices.device(rank).ledger(); }
  std::vector<std::string> Owners(int rank = 0) {
    std::vector<std::string> owners;
    for (const OwnerMemory& owner : ledger(rank).Snapshot().owners) {
      if (owner.owner != "workspace") owners.push_back(owner.owner);
    }
    return owners;
  }
  // The devices have served all that was given to them before.
  void Settle() {
    for (int rank = 0; rank < devices.size(); ++rank) {
      absl::Notification done;
      devices.device(rank).Enqueue(TaskClass::kServing,
                                   [&](Backend&) { done.Notify(); });
      done.WaitForNotification();
    }
  }

  DevicePool devices;
  BatchRunner runner;
};

BatchRun MakeRun(const ModelHandle& version, std::vector<int64_t> lengths) {
  BatchRun run;
  run.version = version;
  run.batch = RandomBatch(*version->model, lengths, 1);
  run.consume = [](const ChunkRows&) { return absl::OkStatus(); };
  return run;
}

// The logits of a batch, in its order.
absl::StatusOr<std::vector<float>> Logits(BatchRunner& runner,
                                          const ModelHandle& version,
                                          std::vector<int64_t> lengths) {
  BatchRun run = MakeRun(version, std::move(lengths));
  const int64_t columns = version->model->output_size();
  std::vector<float> logits(run.batch.num_rows() * columns);
  run.consume = [&](const ChunkRows& rows) {
    std::copy(rows.output.data,
              rows.output.data + rows.output.rows * rows.output.cols,
              logits.begin() + rows.first_output_row * columns);
    return absl::OkStatus();
  };
  const auto state = runner.RunAndWait(std::move(run));
  if (!state.ok()) return state.status();
  return logits;
}

std::vector<float> LogitsAlone(const ModelHandle& version,
                               const std::vector<int64_t>& lengths) {
  Fixture fixture("cpu:1");
  return *Logits(fixture.runner, version, lengths);
}

TEST(BatchRunnerTest, ModelsUsedLongestAgoMakeRoom) {
  std::vector<ModelHandle> versions;
  for (const char* name : {"a", "b", "c", "d"}) {
    versions.push_back(Version(kSru, name));
  }
  const std::vector<int64_t> lengths = {5, 20};
  std::vector<std::vector<float>> want;
  for (const auto& version : versions) {
    want.push_back(LogitsAlone(version, lengths));
  }
  Fixture fixture(Room(2 * BytesOf(versions[0]) + 10));
  const auto use = [&](int i) {
    EXPECT_EQ(*Logits(fixture.runner, versions[i], lengths), want[i]);
    return fixture.Owners();
  };
  EXPECT_THAT(use(0), ElementsAre("a"));
  EXPECT_THAT(use(1), ElementsAre("a", "b"));
  EXPECT_THAT(use(0), ElementsAre("a", "b"));
  EXPECT_THAT(use(2), ElementsAre("a", "c"));
  EXPECT_THAT(use(3), ElementsAre("c", "d"));
  EXPECT_THAT(use(0), ElementsAre("a", "d"));
  EXPECT_LE(fixture.ledger().Snapshot().reserved_high_water,
            fixture.ledger().budget_bytes());
}

TEST(BatchRunnerTest, WhatIsReservedIsWhatTheLargestPassUses) {
  const ModelHandle version = Version(kSru, "a");
  Fixture fixture("cpu:1");
  const auto owner = [&] { return fixture.ledger().Snapshot().owners[0]; };
  ASSERT_TRUE(Logits(fixture.runner, version, {1}).ok());
  EXPECT_EQ(owner().reserved_bytes, BytesOf(version));
  EXPECT_LT(owner().used_bytes, BytesOf(version));
  ASSERT_TRUE(
      Logits(fixture.runner, version, std::vector<int64_t>(kRows, 1)).ok());
  EXPECT_EQ(owner().used_bytes, BytesOf(version));
  fixture.runner.Drop(*version);
  fixture.Settle();
  EXPECT_THAT(fixture.Owners(), IsEmpty());
  EXPECT_EQ(fixture.ledger().Snapshot().used_bytes, 0);
}

TEST(BatchRunnerTest, ManyAtOnceAllEndRight) {
  std::vector<ModelHandle> versions;
  std::vector<std::vector<float>> want;
  const std::vector<int64_t> lengths = {3, 11, 30, 2};
  for (int i = 0; i < 5; ++i) {
    versions.push_back(
        Version(i % 2 == 0 ? kSru : kBidirectional, absl::StrCat(i)));
    want.push_back(LogitsAlone(versions[i], lengths));
  }
  const int64_t bytes =
      std::max(BytesOf(versions[0]), BytesOf(versions[1], 30));
  Fixture fixture(absl::StrCat(Room(2 * bytes), ",", Room(bytes)));
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int n = 0; n < 20; ++n) {
        const int i = (n * (t + 1)) % 5;
        const auto logits = Logits(fixture.runner, versions[i], lengths);
        ASSERT_TRUE(logits.ok()) << logits.status();
        EXPECT_EQ(*logits, want[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& version : versions) fixture.runner.Drop(*version);
  fixture.Settle();
  for (int rank : {0, 1}) {
    const LedgerSnapshot snapshot = fixture.ledger(rank).Snapshot();
    EXPECT_LE(snapshot.reserved_high_water, snapshot.budget_bytes);
    EXPECT_EQ(snapshot.used_bytes, 0);
    EXPECT_THAT(fixture.Owners(rank), IsEmpty());
  }
}

TEST(BatchRunnerTest, TrainingEvictsIdleModels) {
  const ModelHandle version = Version(kSru, "a");
  Fixture fixture(Room(BytesOf(version)));
  ASSERT_TRUE(Logits(fixture.runner, version, {4}).ok());
  {
    MemoryPlan plan;
    plan.gradients = BytesOf(version) - 10;
    const auto training = fixture.ledger().Reserve("jobs/x", plan);
    ASSERT_TRUE(training.ok()) << training.status();
    EXPECT_THAT(fixture.Owners(), ElementsAre("jobs/x"));
    // Nobody knows when the job ends.
    const absl::Status refused = Logits(fixture.runner, version, {4}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("jobs/x"));
  }
  EXPECT_EQ(*Logits(fixture.runner, version, {4}), LogitsAlone(version, {4}));
}

// Runs of `a` from within whose passes others are started; what ended, in
// order.
class Ends {
 public:
  std::function<void(absl::StatusOr<std::vector<float>>)> Of(
      const std::string& name) {
    return [this, name](const absl::StatusOr<std::vector<float>>& state) {
      absl::MutexLock lock(&mutex_);
      ends_.push_back(absl::StrCat(
          name, " ", absl::StatusCodeToString(state.status().code())));
    };
  }
  std::vector<std::string> Wait(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto all = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return ends_.size() >= count;
    };
    mutex_.Await(absl::Condition(&all));
    return ends_;
  }

 private:
  absl::Mutex mutex_;
  std::vector<std::string> ends_ ABSL_GUARDED_BY(mutex_);
};

TEST(BatchRunnerTest, WaitsInLineForModelsInUse) {
  const ModelHandle a = Version(kSru, "a"), b = Version(kSru, "b");
  Fixture fixture(Room(BytesOf(a)));
  Ends ends;
  BatchRun run = MakeRun(a, {10 * kRows});
  int passes = 0;
  run.consume = [&](const ChunkRows&) {
    ++passes;
    if (passes == 1) {
      for (const auto& version : {b, a}) {
        BatchRun other = MakeRun(version, {1});
        other.done = ends.Of(version->name);
        fixture.runner.Start(std::move(other));
      }
    } else if (passes == 9) {
      const auto waiting = fixture.runner.Waiting(0);
      EXPECT_EQ(waiting.size(), 2u);
      EXPECT_EQ(waiting[0].owner, "b");
      EXPECT_THAT(waiting[0].reason,
                  HasSubstr("held by workspace 2.3 MiB, a "));
      EXPECT_EQ(waiting[1].reason, "1 in line before it");
      EXPECT_THAT(fixture.Owners(), ElementsAre("a"));
    }
    return absl::OkStatus();
  };
  run.done = ends.Of("long a");
  fixture.runner.Start(std::move(run));
  EXPECT_THAT(ends.Wait(3), ElementsAre("long a OK", "b OK", "a OK"));
  EXPECT_EQ(passes, 10);
  EXPECT_THAT(fixture.runner.Waiting(0), IsEmpty());
}

// All of the device is held, by the caller and by a model in use for which
// another waits; and the caller's run does not wait.
TEST(BatchRunnerTest, ARunWithMemoryOfItsOwnNeedsNoOther) {
  const ModelHandle a = Version(kSru, "a"), b = Version(kSru, "b");
  const ModelHandle mine = Version(kBidirectional, "");
  const std::vector<int64_t> lengths = {3, 21, 1, 1, 30, 2};
  const std::vector<MemoryPlan> plans =
      Fixture("cpu:1").runner.PassMemories(*mine->model, {0, 30});
  for (const MemoryPlan& plan : plans) {
    Fixture fixture(
        absl::StrCat(Room(5), ",", Room(BytesOf(a) + plan.total())));
    Ledger& ledger = fixture.ledger(1);
    const HeldMemory held = {1, *ledger.Reserve("jobs/x", plan)};
    Ends ends;
    std::vector<float> logits;
    BatchRun run = MakeRun(a, {4 * kRows});
    int passes = 0;
    run.consume = [&](const ChunkRows&) {
      if (++passes == 1) {
        BatchRun other = MakeRun(b, {1});
        other.done = ends.Of("b");
        fixture.runner.Start(std::move(other));
        BatchRun own = MakeRun(mine, lengths);
        own.memory = &held;
        own.consume = [&](const ChunkRows& rows) {
          EXPECT_LE(held.reservation.used_bytes(), plan.total());
          logits.resize(rows.first_output_row * rows.output.cols);
          logits.insert(logits.end(), rows.output.data,
                        rows.output.data + rows.output.rows * rows.output.cols);
          return absl::OkStatus();
        };
        own.done = ends.Of("mine");
        fixture.runner.Start(std::move(own));
      }
      return absl::OkStatus();
    };
    run.done = ends.Of("a");
    fixture.runner.Start(std::move(run));
    EXPECT_THAT(ends.Wait(3), UnorderedElementsAre("a OK", "b OK", "mine OK"));
    EXPECT_EQ(logits, LogitsAlone(mine, lengths));
    fixture.Settle();
    EXPECT_EQ(held.reservation.used_bytes(), 0);
    EXPECT_LE(ledger.Snapshot().reserved_high_water, ledger.budget_bytes());
  }
}

TEST(BatchRunnerTest, WhatIsHeldMustBeEnough) {
  const ModelHandle a = Version(kBidirectional, "a");
  Fixture fixture("cpu:1");
  const HeldMemory held = {
      0, *fixture.ledger().Reserve("jobs/x", InferencePlan(*a->model, {8, 8}))};
  BatchRun run = MakeRun(a, {20});
  run.memory = &held;
  const absl::Status refused =
      fixture.runner.RunAndWait(std::move(run)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("are reserved for it"));
}

TEST(BatchRunnerTest, WhoWaitsCanGo) {
  const ModelHandle a = Version(kSru, "a"), b = Version(kSru, "b");
  Fixture fixture(Room(BytesOf(a)));
  Ends ends;
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  BatchRun run = MakeRun(a, {10 * kRows});
  int passes = 0;
  run.consume = [&](const ChunkRows&) {
    if (++passes == 1) {
      BatchRun other = MakeRun(b, {1});
      other.control.cancelled = cancelled;
      other.done = ends.Of("b");
      fixture.runner.Start(std::move(other));
    } else if (passes == 5) {
      *cancelled = true;
    } else if (passes == 7) {
      EXPECT_THAT(ends.Wait(1), ElementsAre("b CANCELLED"));
    }
    return absl::OkStatus();
  };
  run.done = ends.Of("a");
  fixture.runner.Start(std::move(run));
  EXPECT_THAT(ends.Wait(2), ElementsAre("b CANCELLED", "a OK"));
}

TEST(BatchRunnerTest, WhoWaitsInVainIsToldInTheEnd) {
  const ModelHandle a = Version(kSru, "a");
  const ModelHandle b = Version(kBidirectional, "b");
  const int64_t large = BytesOf(b, 20 * kRows);
  ASSERT_GT(large, BytesOf(a));
  Fixture fixture(Room(large + 10));
  MemoryPlan plan;
  plan.gradients = large - BytesOf(a);
  const auto training = *fixture.ledger().Reserve("jobs/x", plan);
  Ends ends;
  BatchRun run = MakeRun(a, {3 * kRows});
  bool first = true;
  run.consume = [&](const ChunkRows&) {
    if (std::exchange(first, false)) {
      BatchRun other = MakeRun(b, {20 * kRows});
      other.done = ends.Of("b");
      fixture.runner.Start(std::move(other));
    }
    return absl::OkStatus();
  };
  run.done = ends.Of("a");
  fixture.runner.Start(std::move(run));
  EXPECT_THAT(ends.Wait(2), ElementsAre("a OK", "b RESOURCE_EXHAUSTED"));
}

TEST(BatchRunnerTest, WhatIsNotCutGrowsTheArenaFirst) {
  const ModelHandle version = Version(kBidirectional, "a");
  const int64_t longest = 5 * kRows;
  const int64_t bytes = InferencePlan(*version->model, {longest, 1}).total();
  Fixture fixture(Room(bytes));
  ASSERT_TRUE(Logits(fixture.runner, version, {4}).ok());
  EXPECT_EQ(*Logits(fixture.runner, version, {2, longest, 3}),
            LogitsAlone(version, {2, longest, 3}));
  EXPECT_EQ(fixture.ledger().Snapshot().used_high_water, bytes);
  const absl::Status refused =
      Logits(fixture.runner, version, {2, longest + 20, 3}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("sequence 1 has 60 rows"));
  EXPECT_TRUE(Logits(fixture.runner, version, {4}).ok());
}

TEST(BatchRunnerTest, PassesAreSmallerWhereTheBudgetIs) {
  const ModelHandle version = Version(kSru, "a");
  Fixture fixture(Room(BytesOf(version, 2)));
  const std::vector<int64_t> lengths = {5, 1, 9, 1};
  EXPECT_EQ(*Logits(fixture.runner, version, lengths),
            LogitsAlone(version, lengths));
  Fixture too_small(Room(BytesOf(version, 1) - 1));
  const absl::Status refused =
      Logits(too_small.runner, version, lengths).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("weights"));
}

TEST(BatchRunnerTest, ADeviceThatCannotHoldTheModelGetsNone) {
  const ModelHandle version = Version(kSru, "a");
  const int64_t bytes = BytesOf(version);
  Fixture fixture(absl::StrCat(Room(bytes - 10), ",", Room(bytes)));
  const std::vector<int64_t> lengths = {30, 5, 40, 3};
  EXPECT_EQ(*Logits(fixture.runner, version, lengths),
            LogitsAlone(version, lengths));
  EXPECT_THAT(fixture.Owners(0), IsEmpty());
  EXPECT_THAT(fixture.Owners(1), ElementsAre("a"));
}

// The other does its work.
TEST(BatchRunnerTest, ADeviceWithoutRoomGetsNone) {
  const ModelHandle version = Version(kSru, "a");
  const int64_t bytes = BytesOf(version);
  Fixture fixture(absl::StrCat(Room(bytes), ",", Room(bytes)));
  MemoryPlan plan;
  plan.gradients = 1;
  const auto training = *fixture.ledger(0).Reserve("jobs/x", plan);
  const std::vector<int64_t> lengths = {30, 5, 40, 3};
  EXPECT_EQ(*Logits(fixture.runner, version, lengths),
            LogitsAlone(version, lengths));
  EXPECT_THAT(fixture.Owners(0), ElementsAre("jobs/x"));
}

// Whatever is trained: the pass is as small as what is kept for serving.
TEST(BatchRunnerTest,
     AModelThatIsNotLoadedRunsBesideTrainingThatTakesAllItMay) {
  const std::string wide = absl::StrReplaceAll(kSru, {{"size: 7", "size: 60"}});
  const ModelHandle a = Version(wide.c_str(), "a");
  const ModelHandle b = Version(kBidirectional, "b");
  const int64_t floor = std::max(BytesOf(a, 1), BytesOf(b, 5));
  ASSERT_LT(floor, BytesOf(a));
  Fixture fixture(Room(4 * floor), {.serving_memory_share = 0.25});
  ASSERT_EQ(fixture.ledger().serving_floor_bytes(), floor);
  MemoryPlan plan;
  plan.gradients = 3 * floor;
  const auto training =
      fixture.ledger().Reserve("jobs/x", plan, TaskClass::kTraining);
  ASSERT_TRUE(training.ok()) << training.status();
  const std::vector<int64_t> lengths = {5, 1, 3, 1};
  for (const ModelHandle& version : {a, b, a, b}) {
    EXPECT_EQ(*Logits(fixture.runner, version, lengths),
              LogitsAlone(version, lengths));
  }
}

// Another device has its memory, though more work.
TEST(BatchRunnerTest, ARunThatADeviceRefusesGoesToAnother) {
  const ModelHandle version = Version(kSru, "a");
  const int64_t bytes = BytesOf(version);
  Fixture fixture(absl::StrCat(Room(bytes), ",", Room(bytes)));
  for (const int full : {0, 1}) {
    MemoryPlan plan;
    plan.gradients = 1;
    const auto training = *fixture.ledger(full).Reserve("jobs/x", plan);
    EXPECT_EQ(*Logits(fixture.runner, version, {5}), LogitsAlone(version, {5}));
    EXPECT_THAT(fixture.Owners(full), ElementsAre("jobs/x"));
    EXPECT_THAT(fixture.Owners(1 - full), ElementsAre("a"));
    fixture.runner.Drop(*version);
    fixture.Settle();
  }
}

// Of a model that a job has evicted.
TEST(BatchRunnerTest, WaitsForMemoryThatTheDeviceIsAboutToFree) {
  const ModelHandle a = Version(kBidirectional, "a");
  const ModelHandle b = Version(kSru, "b");
  ASSERT_LT(BytesOf(b), BytesOf(a));
  Fixture fixture(Room(BytesOf(a)));
  const std::vector<int64_t> all_rows(kRows, 1);
  ASSERT_TRUE(Logits(fixture.runner, a, all_rows).ok());
  absl::Notification evicted;
  fixture.devices.device(0).Enqueue(
      TaskClass::kServing, [&](Backend&) { evicted.WaitForNotification(); });
  Ends ends;
  BatchRun run = MakeRun(b, {5});
  run.done = ends.Of("b");
  fixture.runner.Start(std::move(run));  // before the task that frees
  std::thread job([&] {
    MemoryPlan plan;
    plan.gradients = BytesOf(a) - BytesOf(b);
    EXPECT_TRUE(fixture.ledger().Reserve("jobs/x", plan).ok());
  });
  while (fixture.ledger().Snapshot().waiting.empty()) {
    std::this_thread::yield();
  }
  evicted.Notify();
  job.join();
  EXPECT_THAT(ends.Wait(1), ElementsAre("b OK"));
}

TEST(BatchRunnerTest, VersionsThatAreGoneLeaveNothing) {
  Fixture fixture("cpu:1");
  std::vector<ModelHandle> versions;
  for (int i = 0; i < 3; ++i) {
    versions.push_back(Version(kSru, absl::StrCat(i)));
    ASSERT_TRUE(Logits(fixture.runner, versions.back(), {3}).ok());
  }
  EXPECT_THAT(fixture.Owners(), UnorderedElementsAre("0", "1", "2"));
  fixture.runner.Drop(*versions[1]);
  fixture.Settle();
  EXPECT_THAT(fixture.Owners(), UnorderedElementsAre("0", "2"));
  versions.clear();
  const ModelHandle last = Version(kSru, "last");
  ASSERT_TRUE(Logits(fixture.runner, last, {3}).ok());
  EXPECT_THAT(fixture.Owners(), ElementsAre("last"));
}

}  // namespace
}  // namespace recurve
