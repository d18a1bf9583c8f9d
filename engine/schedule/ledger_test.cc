#include "engine/schedule/ledger.h"

#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/schedule/account_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int64_t kMiB = 1 << 20;

MemoryPlan Weights(int64_t bytes) {
  MemoryPlan plan;
  plan.weights = bytes;
  return plan;
}

Ledger::Options Budget(int64_t bytes) {
  Ledger::Options options;
  options.name = "devices/0";
  options.budget_bytes = bytes;
  return options;
}

Ledger::Reservation Must(absl::StatusOr<Ledger::Reservation> reservation) {
  EXPECT_TRUE(reservation.ok()) << reservation.status();
  return reservation.ok() ? *std::move(reservation) : Ledger::Reservation();
}

absl::StatusOr<Ledger::Reservation> ReserveOrWait(Ledger& ledger,
                                                  const std::string& owner,
                                                  const MemoryPlan& plan,
                                                  const Ledger::Wait& wait) {
  auto all = Ledger::ReserveAll(owner, {{&ledger, plan}}, wait);
  if (!all.ok()) return all.status();
  return std::move(all->front());
}

// A reservation with a buffer that fills it: what a model is on a device.
struct Holding {
  Holding(Ledger& ledger, const std::string& owner, int64_t bytes)
      : reservation(Must(ledger.TryReserve(owner, Weights(bytes)))),
        device(CreateCpuBackend(1)) {
    AccountBackend backend(*device, reservation.account());
    auto allocated = backend.Allocate(bytes);
    EXPECT_TRUE(allocated.ok()) << allocated.status();
    buffer = *std::move(allocated);
  }
  Ledger::Reservation reservation;
  std::unique_ptr<Backend> device;
  std::unique_ptr<DeviceBuffer> buffer;
};

TEST(Ledger, HoldsUntilTheHandleGoes) {
  Ledger ledger(Budget(100));
  {
    const Ledger::Reservation a = Must(ledger.Reserve("a", Weights(60)));
    EXPECT_EQ(ledger.Snapshot().reserved_bytes, 60);
    EXPECT_EQ(a.plan(), Weights(60));
    EXPECT_TRUE(
        absl::IsResourceExhausted(ledger.Reserve("b", Weights(41)).status()));
    const Ledger::Reservation c = Must(ledger.Reserve("c", Weights(40)));
    EXPECT_EQ(ledger.Snapshot().reserved_bytes, 100);
  }
  const LedgerSnapshot snapshot = ledger.Snapshot();
  EXPECT_EQ(snapshot.reserved_bytes, 0);
  EXPECT_EQ(snapshot.reserved_high_water, 100);
  EXPECT_THAT(snapshot.owners, IsEmpty());
}

TEST(Ledger, MovedHandlesHoldOnce) {
  Ledger ledger(Budget(100));
  Ledger::Reservation a = Must(ledger.Reserve("a", Weights(60)));
  Ledger::Reservation b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: what a move leaves behind
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 60);
  b = Must(ledger.Reserve("b", Weights(30)));
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 30);
  b.Release();
  b.Release();
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 0);
}

TEST(Ledger, WithoutABudgetEverythingFits) {
  Ledger ledger(Budget(0));
  const auto a = Must(ledger.Reserve("a", Weights(int64_t{1} << 50)));
  const auto b = Must(ledger.Reserve("b", Weights(int64_t{1} << 50)));
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, int64_t{1} << 51);
}

TEST(Ledger, RefusalsHaveTheNumbersAndTheLargestHolders) {
  Ledger ledger(Budget(2048 * kMiB));
  const auto a = Must(ledger.Reserve("models/a/versions/1",  //
                                     Weights(900 * kMiB)));
  const auto b = Must(ledger.Reserve("b", Weights(300 * kMiB)));
  const auto c = Must(ledger.Reserve("c", Weights(400 * kMiB)));
  const auto d = Must(ledger.Reserve("d", Weights(148 * kMiB)));
  MemoryPlan plan = Weights(100 * kMiB);
  plan.activations = 1000 * kMiB;
  const absl::Status status = ledger.Reserve("jobs/x", plan).status();
  EXPECT_EQ(status,
            absl::ResourceExhaustedError(
                "jobs/x needs 1.1 GiB (activations 1000.0 MiB, weights 100.0 "
                "MiB), 300.0 MiB free of 2.0 GiB of devices/0; held by "
                "models/a/versions/1 900.0 MiB, c 400.0 MiB, b 300.0 MiB, 1 "
                "more"));
}

TEST(Ledger, WhatTheWholeBudgetDoesNotHoldIsRefusedWithoutWaiting) {
  Ledger::Options options = Budget(3 * kMiB);
  options.workspace_bytes = kMiB;
  Ledger ledger(options);
  EXPECT_TRUE(ledger.CheckFitsBudget("a", Weights(2 * kMiB)).ok());
  const absl::Status expected = absl::ResourceExhaustedError(
      "a needs 2.5 MiB (weights 2.5 MiB); the budget of devices/0 is 3.0 MiB, "
      "of which its threads' workspace takes 1.0 MiB");
  const MemoryPlan plan = Weights(5 * kMiB / 2);
  EXPECT_EQ(ledger.CheckFitsBudget("a", plan), expected);
  EXPECT_EQ(ReserveOrWait(ledger, "a", plan, {}).status(), expected);
  EXPECT_EQ(ledger.Reserve("a", plan).status(), expected);
  EXPECT_EQ(ledger.Snapshot().owners[0].owner, "workspace");
}

TEST(Ledger, ResizingChangesNothingWhereItFails) {
  Ledger ledger(Budget(100));
  auto a = Must(ledger.Reserve("a", Weights(40)));
  const auto b = Must(ledger.Reserve("b", Weights(30)));
  EXPECT_TRUE(a.Resize(Weights(70)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(a.Resize(Weights(71))));
  EXPECT_THAT(a.TryResize(Weights(80)).message(),
              HasSubstr("needs 10 bytes more, 80 bytes in all"));
  EXPECT_EQ(a.plan(), Weights(70));
  EXPECT_TRUE(a.Resize(Weights(10)).ok());
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 40);
  EXPECT_EQ(ledger.Snapshot().owners[0].reserved_high_water, 70);
}

TEST(Ledger, OneOwnerMayHoldSeveralReservations) {
  Ledger ledger(Budget(100));
  auto a = Must(ledger.Reserve("a", Weights(10)));
  MemoryPlan sessions;
  sessions.sessions = 5;
  const auto more = Must(ledger.Reserve("a", sessions));
  ASSERT_EQ(ledger.Snapshot().owners.size(), 1u);
  EXPECT_EQ(ledger.Snapshot().owners[0].plan, Weights(10) + sessions);
  a.Release();
  EXPECT_EQ(ledger.Snapshot().owners[0].plan, sessions);
}

// --- What is used ---

TEST(Ledger, APartOfAReservationIsHeldByItself) {
  Ledger ledger({.name = "devices/0", .budget_bytes = 100});
  MemoryPlan plan, part, all;
  plan.weights = 60;
  plan.activations = 40;
  part.weights = 10;
  part.activations = 20;
  all.weights = 71;
  auto held = *ledger.Reserve("jobs/x", plan);
  auto split = held.Split(part);
  EXPECT_EQ(split.plan(), part);
  EXPECT_EQ(held.plan() + part, plan);
  const LedgerSnapshot snapshot = ledger.Snapshot();
  ASSERT_EQ(snapshot.owners.size(), 1u);
  EXPECT_EQ(snapshot.owners[0].plan, plan);
  EXPECT_EQ(snapshot.reserved_bytes, 100);
  EXPECT_EQ(snapshot.reserved_high_water, 100);
  held.Release();
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 30);
  EXPECT_FALSE(ledger.Reserve("b", all).ok());
  split.Release();
  EXPECT_TRUE(ledger.Reserve("b", all).ok());
}

TEST(AccountBackend, CountsWhatTheOwnerUses) {
  Ledger ledger(Budget(1000));
  const auto device = CreateCpuBackend(1);
  const auto a = Must(ledger.Reserve("a", Weights(300)));
  AccountBackend backend(*device, a.account());
  auto first = *backend.Allocate(100);
  {
    const auto second = *backend.Allocate(200);
    EXPECT_EQ(a.used_bytes(), 300);
  }
  const LedgerSnapshot snapshot = ledger.Snapshot();
  EXPECT_EQ(snapshot.used_bytes, 100);
  EXPECT_EQ(snapshot.used_high_water, 300);
  EXPECT_EQ(snapshot.owners[0].used_bytes, 100);
  EXPECT_EQ(snapshot.owners[0].used_high_water, 300);
  EXPECT_EQ(snapshot.owners[0].reserved_bytes, 300);
}

TEST(AccountBackend, MoreThanThePlanIsOurBug) {
  Ledger ledger(Budget(1000));
  const auto device = CreateCpuBackend(1);
  const auto a = Must(ledger.Reserve("a", Weights(300)));
  AccountBackend backend(*device, a.account());
  const auto first = *backend.Allocate(200);
  EXPECT_EQ(backend.Allocate(101).status(),
            absl::InternalError("plan exceeded: a reserved 300 bytes (weights "
                                "300 bytes) on devices/0, uses 200 and "
                                "allocates 101 more"));
  EXPECT_EQ(a.used_bytes(), 200);
}

TEST(AccountBackend, BuffersKeepTheirBytesReserved) {
  auto ledger = std::make_unique<Ledger>(Budget(100));
  Holding a(*ledger, "a", 60);
  a.reservation.Release();
  EXPECT_EQ(ledger->Snapshot().reserved_bytes, 60);
  EXPECT_EQ(ledger->Snapshot().owners[0].plan, MemoryPlan());
  EXPECT_THAT(ledger->TryReserve("b", Weights(50)).status().message(),
              HasSubstr("held by a 60 bytes; 60 bytes being freed"));
  a.buffer.reset();
  EXPECT_EQ(ledger->Snapshot().reserved_bytes, 0);
  EXPECT_THAT(ledger->Snapshot().owners, IsEmpty());

  Holding late(*ledger, "late", 60);
  ledger.reset();
}

// --- Eviction ---

// Models that nobody uses at the moment, the one used longest ago first.
class IdleModels : public Evictor {
 public:
  // `frees` = buffers go in Evict; else when FreeOne is called.
  IdleModels(Ledger& ledger, bool frees) : ledger_(ledger), frees_(frees) {
    ledger_.AddEvictor(this);
  }
  ~IdleModels() override { ledger_.RemoveEvictor(this); }

  void Add(const std::string& owner, int64_t bytes) {
    models_.push_back(std::make_unique<Holding>(ledger_, owner, bytes));
  }
  int64_t EvictableBytes() override {
    int64_t bytes = 0;
    for (const auto& model : models_)
      bytes += model->reservation.plan().total();
    return bytes;
  }
  void Evict(int64_t bytes) override {
    ++calls_;
    for (const auto& model : models_) {
      if (bytes <= 0) break;
      bytes -= model->reservation.plan().total();
      model->reservation.Release();
    }
    if (frees_) FreeReleased();
    if (!evicted_.HasBeenNotified()) evicted_.Notify();
  }
  // On the device's thread.
  void FreeReleased() {
    models_.erase(
        std::remove_if(models_.begin(), models_.end(),
                       [](const auto& model) { return !model->reservation; }),
        models_.end());
  }
  void WaitUntilEvicted() { evicted_.WaitForNotification(); }
  int calls() const { return calls_; }

 private:
  Ledger& ledger_;
  const bool frees_;
  std::vector<std::unique_ptr<Holding>> models_;
  absl::Notification evicted_;
  int calls_ = 0;
};

std::vector<std::string> Owners(const Ledger& ledger) {
  std::vector<std::string> names;
  for (const OwnerMemory& owner : ledger.Snapshot().owners) {
    names.push_back(owner.owner);
  }
  return names;
}

TEST(Ledger, EvictsWhatWasUsedLongestAgo) {
  Ledger ledger(Budget(100));
  IdleModels models(ledger, /*frees=*/true);
  models.Add("m1", 30);
  models.Add("m2", 30);
  models.Add("m3", 30);
  const auto a = Must(ledger.TryReserve("a", Weights(50)));
  EXPECT_THAT(Owners(ledger), ElementsAre("a", "m3"));
}

TEST(Ledger, EvictsNothingWhereThatWouldNotDo) {
  Ledger ledger(Budget(100));
  IdleModels models(ledger, /*frees=*/true);
  models.Add("m1", 30);
  const auto a = Must(ledger.Reserve("a", Weights(50)));
  EXPECT_TRUE(
      absl::IsResourceExhausted(ledger.Reserve("b", Weights(60)).status()));
  EXPECT_EQ(models.calls(), 0);
  EXPECT_THAT(Owners(ledger), ElementsAre("a", "m1"));
}

TEST(Ledger, SeveralEvictorsGiveTogether) {
  Ledger ledger(Budget(100));
  IdleModels first(ledger, true), second(ledger, true), third(ledger, true);
  first.Add("m1", 40);
  second.Add("m2", 40);
  third.Add("m3", 20);
  const auto a = Must(ledger.Reserve("a", Weights(70)));
  EXPECT_THAT(Owners(ledger), ElementsAre("a", "m3"));
  EXPECT_EQ(third.calls(), 0);
}

TEST(Ledger, ReserveWaitsForTheDeviceToFreeWhatWasEvicted) {
  Ledger ledger(Budget(100));
  IdleModels models(ledger, /*frees=*/false);
  models.Add("m1", 80);
  std::thread device([&] {
    models.WaitUntilEvicted();
    // Nobody else gets what is being freed, nor goes into the budget twice.
    EXPECT_FALSE(ledger.TryReserve("thief", Weights(90)).ok());
    models.FreeReleased();
  });
  const auto a = Must(ledger.Reserve("a", Weights(90)));
  device.join();
  EXPECT_THAT(Owners(ledger), ElementsAre("a"));
  EXPECT_EQ(ledger.Snapshot().reserved_high_water, 90);
}

TEST(Ledger, TwoWhoWaitForWhatIsBeingFreedBothGetIt) {
  Ledger ledger(Budget(100));
  Holding first_to_go(ledger, "x", 40), second_to_go(ledger, "y", 40);
  first_to_go.reservation.Release();
  second_to_go.reservation.Release();
  std::thread a([&] {
    EXPECT_EQ(Must(ledger.Reserve("a", Weights(50))).plan(), Weights(50));
  });
  std::thread b([&] {
    EXPECT_EQ(Must(ledger.Reserve("b", Weights(45))).plan(), Weights(45));
  });
  // What is being freed is enough for both, and for one of them beside these.
  while (!absl::IsResourceExhausted(
      ledger.TryReserve("probe", Weights(30)).status())) {
    std::this_thread::yield();
  }
  first_to_go.buffer.reset();
  second_to_go.buffer.reset();
  a.join();
  b.join();
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 0);
}

TEST(Ledger, TryReserveDoesNotWait) {
  Ledger ledger(Budget(100));
  IdleModels models(ledger, /*frees=*/false);
  models.Add("m1", 80);
  const absl::Status status = ledger.TryReserve("a", Weights(90)).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("80 bytes being freed"));
  models.FreeReleased();
  EXPECT_TRUE(ledger.TryReserve("a", Weights(90)).ok());
}

TEST(Ledger, GrowingEvictsToo) {
  Ledger ledger(Budget(100));
  IdleModels models(ledger, /*frees=*/true);
  models.Add("m1", 50);
  auto a = Must(ledger.Reserve("a", Weights(40)));
  EXPECT_TRUE(a.Resize(Weights(90)).ok());
  EXPECT_THAT(Owners(ledger), ElementsAre("a"));
}

// --- What is kept for serving ---

Ledger::Options KeptForServing(int64_t bytes, int64_t floor) {
  Ledger::Options options = Budget(bytes);
  options.serving_floor_bytes = floor;
  return options;
}

TEST(ServingFloor, IsAShareOfWhatTheWorkspaceLeaves) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    const auto floor = [kind](int64_t bytes, double share) {
      DeviceSpec spec;
      spec.kind = kind;
      spec.threads = 2;
      if (bytes != 0) spec.memory_bytes = WorkspacePlan(spec).total() + bytes;
      return ServingFloor(spec, share);
    };
    EXPECT_EQ(floor(1000, 0.25), 250);
    EXPECT_EQ(floor(1000, 0), 0);
    EXPECT_EQ(floor(-1, 0.5), 0);
    EXPECT_EQ(floor(0, 0.5), 0);  // all of an unlimited budget
  }
}

TEST(Ledger, TrainersAndJobsTogetherLeaveServingItsPart) {
  Ledger ledger(KeptForServing(100, 20));
  auto trainer =
      Must(ledger.Reserve("trainers/y", Weights(50), TaskClass::kTraining));
  auto job = Must(ReserveOrWait(ledger, "jobs/x", Weights(30), {}));
  EXPECT_EQ(
      ledger.Reserve("trainers/z", Weights(1), TaskClass::kTraining).status(),
      absl::ResourceExhaustedError(
          "trainers/z needs 1 bytes (weights 1 bytes), 0 bytes free of 100 "
          "bytes of devices/0, 20 bytes of which are kept for serving "
          "(--serving_memory_share); held by trainers/y 50 bytes, jobs/x 30 "
          "bytes"));
  EXPECT_FALSE(trainer.Resize(Weights(51)).ok());
  const auto model = Must(ledger.TryReserve("model", Weights(20)));
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 100);
  EXPECT_TRUE(trainer.Resize(Weights(49)).ok());
  EXPECT_TRUE(job.Resize(Weights(31)).ok());
}

TEST(Ledger, ServingMayUseAllThatIsFree) {
  Ledger ledger(KeptForServing(100, 20));
  const auto model = Must(ledger.TryReserve("model", Weights(95)));
  EXPECT_FALSE(
      ledger.Reserve("trainers/y", Weights(10), TaskClass::kTraining).ok());
  EXPECT_TRUE(
      ledger.Reserve("trainers/y", Weights(5), TaskClass::kTraining).ok());
}

TEST(Ledger, WhatServingsPartDoesNotLeaveIsRefusedWithoutWaiting) {
  Ledger::Options options = KeptForServing(4 * kMiB, kMiB);
  options.workspace_bytes = kMiB;
  Ledger ledger(options);
  const absl::Status expected = absl::ResourceExhaustedError(
      "a needs 2.5 MiB (weights 2.5 MiB); the budget of devices/0 is 4.0 MiB, "
      "of which its threads' workspace takes 1.0 MiB, 1.0 MiB of which are "
      "kept for serving (--serving_memory_share)");
  const MemoryPlan plan = Weights(5 * kMiB / 2);
  EXPECT_EQ(ledger.CheckFitsBudget("a", plan, TaskClass::kTraining), expected);
  EXPECT_EQ(ReserveOrWait(ledger, "a", plan, {}).status(), expected);
  EXPECT_TRUE(ledger.CheckFitsBudget("a", plan).ok());
  EXPECT_TRUE(ReserveOrWait(ledger, "a", Weights(2 * kMiB), {}).ok());
}

TEST(Ledger, PartsOfTrainingsReservationsAreTrainings) {
  Ledger ledger(KeptForServing(100, 20));
  auto held = Must(ReserveOrWait(ledger, "jobs/x", Weights(80), {}));
  const auto part = held.Split(Weights(30));
  held.Release();
  EXPECT_FALSE(
      ledger.Reserve("trainers/y", Weights(51), TaskClass::kTraining).ok());
  EXPECT_TRUE(
      ledger.Reserve("trainers/y", Weights(50), TaskClass::kTraining).ok());
}

TEST(Ledger, IdleModelsMakeRoomForTrainingWithinItsPart) {
  Ledger ledger(KeptForServing(100, 20));
  IdleModels models(ledger, /*frees=*/true);
  models.Add("m1", 30);
  models.Add("m2", 15);
  auto job = Must(ReserveOrWait(ledger, "jobs/x", Weights(80), {}));
  EXPECT_THAT(Owners(ledger), ElementsAre("jobs/x", "m2"));
  // No model's memory is any good to it.
  EXPECT_FALSE(
      ledger.Reserve("trainers/y", Weights(10), TaskClass::kTraining).ok());
  EXPECT_THAT(Owners(ledger), ElementsAre("jobs/x", "m2"));
  EXPECT_EQ(models.calls(), 1);
}

TEST(Ledger, ServingIsNotKeptOutByWhatTrainingIsPromised) {
  Ledger ledger(KeptForServing(100, 20));
  IdleModels models(ledger, /*frees=*/false);
  models.Add("m1", 80);
  std::thread device([&] {
    models.WaitUntilEvicted();
    // All that is free is the trainer's; what is being freed is enough for
    // both.
    EXPECT_TRUE(
        absl::IsAborted(ledger.TryReserve("served", Weights(20)).status()));
    models.FreeReleased();
  });
  const auto trainer =
      Must(ledger.Reserve("trainers/y", Weights(80), TaskClass::kTraining));
  device.join();
  EXPECT_TRUE(ledger.TryReserve("served", Weights(20)).ok());
}

// --- Waiting ---

// A thread that waits in line, and what came of it.
class Waiter {
 public:
  Waiter(Ledger& ledger, const std::string& owner, int64_t bytes,
         absl::Time deadline = absl::InfiniteFuture())
      : Waiter(owner, {{&ledger, Weights(bytes)}}, deadline) {}
  Waiter(const std::string& owner, std::vector<Ledger::Need> needs,
         absl::Time deadline = absl::InfiniteFuture())
      : thread_([this, owner, needs = std::move(needs), deadline] {
          Ledger::Wait wait;
          wait.deadline = deadline;
          wait.cancelled = &cancelled_;
          wait.on_wait = [this](const std::string& reason) {
            if (waits_.HasBeenNotified()) return;
            reason_ = reason;
            waits_.Notify();
          };
          result_ = Ledger::ReserveAll(owner, needs, wait);
        }) {
    waits_.WaitForNotification();
  }
  ~Waiter() {
    if (thread_.joinable()) thread_.join();
  }

  const std::string& reason() const { return reason_; }
  void Cancel() { cancelled_ = true; }
  absl::StatusOr<std::vector<Ledger::Reservation>> Results() {
    thread_.join();
    return std::move(result_);
  }
  absl::StatusOr<Ledger::Reservation> Result() {
    auto all = Results();
    if (!all.ok()) return all.status();
    return std::move(all->front());
  }

 private:
  std::atomic<bool> cancelled_ = false;
  absl::Notification waits_;
  std::string reason_;
  absl::StatusOr<std::vector<Ledger::Reservation>> result_;
  std::thread thread_;
};

TEST(Ledger, WaitsUntilItFitsAndSaysWhy) {
  Ledger::Options options = Budget(100);
  const absl::Time start = absl::FromUnixSeconds(1000);
  options.now = [&] { return start; };
  Ledger ledger(options);
  auto a = Must(ledger.Reserve("a", Weights(70)));
  Waiter b(ledger, "b", 40);
  const std::string reason =
      "needs 40 bytes (weights 40 bytes), 30 bytes free of 100 bytes of "
      "devices/0; held by a 70 bytes";
  EXPECT_EQ(b.reason(), reason);
  const LedgerSnapshot snapshot = ledger.Snapshot();
  ASSERT_EQ(snapshot.waiting.size(), 1u);
  EXPECT_EQ(snapshot.waiting[0].owner, "b");
  EXPECT_EQ(snapshot.waiting[0].plan, Weights(40));
  EXPECT_EQ(snapshot.waiting[0].reason, reason);
  EXPECT_EQ(snapshot.waiting[0].since, start);
  EXPECT_THAT(Owners(ledger), ElementsAre("a"));
  a.Release();
  const auto held = Must(b.Result());
  EXPECT_THAT(Owners(ledger), ElementsAre("b"));
  EXPECT_THAT(ledger.Snapshot().waiting, IsEmpty());
}

TEST(Ledger, NobodyInLineOvertakes) {
  Ledger ledger(Budget(100));
  auto a = Must(ledger.Reserve("a", Weights(50)));
  auto b = Must(ledger.Reserve("b", Weights(40)));
  Waiter large(ledger, "large", 80);
  Waiter small(ledger, "small", 20);
  EXPECT_THAT(small.reason(), HasSubstr("1 in line before it"));
  b.Release();  // 50 are free, which the first in line cannot use yet
  EXPECT_EQ(ledger.Snapshot().waiting.size(), 2u);
  a.Release();
  auto first = Must(large.Result());
  auto second = Must(small.Result());
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 100);
}

TEST(Ledger, ServingGoesBeforeTheLine) {
  Ledger ledger(Budget(100));
  const auto a = Must(ledger.Reserve("a", Weights(60)));
  Waiter job(ledger, "job", 80);
  auto served = Must(ledger.Reserve("served", Weights(40)));
  EXPECT_EQ(ledger.Snapshot().reserved_bytes, 100);
  job.Cancel();
  EXPECT_TRUE(absl::IsCancelled(job.Result().status()));
}

TEST(Ledger, TheNextInLineComesWhenTheFirstGivesUp) {
  Ledger ledger(Budget(100));
  const auto a = Must(ledger.Reserve("a", Weights(50)));
  Waiter large(ledger, "large", 80);
  Waiter small(ledger, "small", 20);
  large.Cancel();
  const auto held = Must(small.Result());
  const absl::Status status = large.Result().status();
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_THAT(status.message(), HasSubstr("large was cancelled; it needs"));
}

TEST(Ledger, ADeadlineEndsTheWait) {
  std::atomic<int64_t> seconds = 1000;
  Ledger::Options options = Budget(100);
  options.now = [&] { return absl::FromUnixSeconds(seconds); };
  Ledger ledger(options);
  const auto a = Must(ledger.Reserve("a", Weights(50)));
  Waiter b(ledger, "b", 80, absl::FromUnixSeconds(1010));
  seconds = 1010;
  const absl::Status status = b.Result().status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("held by a 50 bytes"));
  EXPECT_THAT(ledger.Snapshot().waiting, IsEmpty());
}

TEST(Ledger, TheFirstInLineEvicts) {
  Ledger ledger(Budget(100));
  IdleModels models(ledger, /*frees=*/false);
  models.Add("m1", 50);
  auto a = Must(ledger.Reserve("a", Weights(40)));
  Waiter job(ledger, "job", 60);
  models.WaitUntilEvicted();
  models.FreeReleased();
  const auto held = Must(job.Result());
  EXPECT_THAT(Owners(ledger), ElementsAre("a", "job"));
}

// --- Several ledgers ---

class Devices : public ::testing::Test {
 protected:
  static Ledger::Options Named(const char* name) {
    Ledger::Options options = Budget(100);
    options.name = name;
    return options;
  }
  static int64_t ReservedOf(const Ledger& ledger) {
    return ledger.Snapshot().reserved_bytes;
  }

  Ledger a_{Named("devices/0")}, b_{Named("devices/1")};
};

TEST_F(Devices, WhoWaitsForOneHoldsNothingOfTheOthers) {
  auto other = Must(b_.Reserve("other", Weights(50)));
  Waiter job("job", {{&a_, Weights(80)}, {&b_, Weights(60)}});
  EXPECT_EQ(job.reason(),
            "needs 60 bytes (weights 60 bytes), 50 bytes free of 100 bytes of "
            "devices/1; held by other 50 bytes");
  EXPECT_EQ(ReservedOf(a_), 0);
  EXPECT_THAT(a_.Snapshot().waiting.at(0).reason,
              HasSubstr("; waits for other devices"));
  { const auto served = Must(a_.TryReserve("served", Weights(100))); }
  other.Release();
  const auto held = job.Results();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ((*held)[0].plan(), Weights(80));
  EXPECT_EQ((*held)[1].plan(), Weights(60));
  EXPECT_EQ(ReservedOf(a_), 80);
  EXPECT_EQ(ReservedOf(b_), 60);
  EXPECT_THAT(a_.Snapshot().waiting, IsEmpty());
}

TEST_F(Devices, SaysEachThatIsInTheWay) {
  const auto x = Must(a_.Reserve("x", Weights(50)));
  const auto y = Must(b_.Reserve("y", Weights(70)));
  Waiter job("job", {{&a_, Weights(80)}, {&b_, Weights(60)}});
  EXPECT_THAT(job.reason(), HasSubstr("held by x 50 bytes, and needs 60"));
  EXPECT_THAT(job.reason(), HasSubstr("held by y 70 bytes"));
  job.Cancel();
  EXPECT_TRUE(absl::IsCancelled(job.Results().status()));
  EXPECT_THAT(a_.Snapshot().waiting, IsEmpty());
  EXPECT_THAT(b_.Snapshot().waiting, IsEmpty());
}

TEST_F(Devices, WhoCameFirstGoesFirstWhereTheyNeedTheSame) {
  Ledger c(Named("devices/2"));
  auto other = Must(b_.Reserve("other", Weights(50)));
  auto first = std::make_unique<Waiter>(
      "first",
      std::vector<Ledger::Need>{{&a_, Weights(60)}, {&b_, Weights(60)}});
  // Would fit, and would keep the first one out for longer.
  Waiter second("second", {{&c, Weights(60)}, {&a_, Weights(60)}});
  EXPECT_THAT(second.reason(), HasSubstr("1 in line before it"));
  // Needs nothing of what the second waits for but c, of which it has none yet.
  Waiter third("third", {{&c, Weights(60)}});
  EXPECT_THAT(third.reason(), HasSubstr("1 in line before it"));
  EXPECT_EQ(ReservedOf(c), 0);
  other.Release();
  {
    const auto held = first->Results();
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(ReservedOf(a_), 60);
  }
  {
    const auto held = second.Results();
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_EQ(ReservedOf(c), 60);
  }
  EXPECT_TRUE(third.Results().ok());
}

TEST_F(Devices, NothingIsEvictedForWhoCannotBeginAnyway) {
  IdleModels models(a_, /*frees=*/true);
  models.Add("m", 50);
  auto other = Must(b_.Reserve("other", Weights(50)));
  Waiter job("job", {{&a_, Weights(80)}, {&b_, Weights(60)}});
  Waiter late(b_, "late", 100);  // the first has looked by now
  EXPECT_EQ(models.calls(), 0);
  other.Release();
  {
    const auto held = job.Results();
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_THAT(Owners(a_), ElementsAre("job"));
  }
  EXPECT_TRUE(late.Results().ok());
}

TEST_F(Devices, WhatIsBeingFreedIsPromised) {
  IdleModels on_a(a_, /*frees=*/false), on_b(b_, /*frees=*/false);
  on_a.Add("m", 50);
  on_b.Add("n", 50);
  Waiter job("job", {{&a_, Weights(80)}, {&b_, Weights(80)}});
  on_a.WaitUntilEvicted();
  on_b.WaitUntilEvicted();
  on_a.FreeReleased();
  // It has that of the one device, and nobody takes the other's from it.
  EXPECT_EQ(ReservedOf(a_), 80);
  EXPECT_FALSE(b_.TryReserve("thief", Weights(40)).ok());
  on_b.FreeReleased();
  const auto held = job.Results();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(ReservedOf(b_), 80);
}

// A model that was idle is in use when it is asked to go.
class Reluctant : public Evictor {
 public:
  explicit Reluctant(Ledger& ledger)
      : ledger_(ledger), model_(ledger, "m", 50) {
    ledger_.AddEvictor(this);
  }
  ~Reluctant() override { ledger_.RemoveEvictor(this); }
  int64_t EvictableBytes() override { return model_.reservation ? 50 : 0; }
  void Evict(int64_t) override {
    if (++calls_ < 3) return;
    model_.reservation.Release();
    model_.buffer.reset();
  }

 private:
  Ledger& ledger_;
  Holding model_;
  int calls_ = 0;
};

TEST_F(Devices, APromiseThatIsNotKeptIsTakenBackOnAll) {
  Reluctant model(b_);
  Waiter job("job", {{&a_, Weights(80)}, {&b_, Weights(80)}});
  const auto held = job.Results();
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(ReservedOf(a_), 80);
  EXPECT_EQ(a_.Snapshot().reserved_high_water, 80);
  EXPECT_EQ(ReservedOf(b_), 80);
}

// Whatever the order in which devices are named: all come to their turn, and
// none holds a part of what it needs.
TEST_F(Devices, ManyWhoNeedSeveralNeverWaitForEachOther) {
  constexpr int kThreads = 6, kRounds = 200;
  std::atomic<int> holders = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string owner = "jobs/" + std::to_string(t);
      std::vector<Ledger::Need> needs = {{&a_, Weights(60)},
                                         {&b_, Weights(60)}};
      if (t % 2 == 0) std::swap(needs[0], needs[1]);
      for (int round = 0; round < kRounds; ++round) {
        const auto held = Ledger::ReserveAll(owner, needs, {});
        ASSERT_TRUE(held.ok()) << held.status();
        EXPECT_EQ(++holders, 1);
        EXPECT_EQ(ReservedOf(a_), 60);
        EXPECT_EQ(ReservedOf(b_), 60);
        --holders;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ReservedOf(a_), 0);
  EXPECT_THAT(b_.Snapshot().waiting, IsEmpty());
}

// --- All at once ---

// Threads reserve, resize, allocate, wait and let go at random, while idle
// models come and are evicted. `reserved` never exceeds the budget, `used`
// never `reserved`, and in the end all is zero.
TEST(Ledger, BooksBalanceWhateverManyThreadsDo) {
  constexpr int64_t kBudget = 1000;
  constexpr int kThreads = 6, kRounds = 300;
  Ledger ledger(Budget(kBudget));
  std::atomic<bool> done = false;
  std::thread auditor([&] {
    while (!done) {
      const LedgerSnapshot s = ledger.Snapshot();
      int64_t reserved = 0, used = 0;
      for (const OwnerMemory& owner : s.owners) {
        EXPECT_LE(owner.used_bytes, owner.reserved_bytes);
        EXPECT_LE(owner.plan.total(), owner.reserved_bytes);
        reserved += owner.reserved_bytes;
        used += owner.used_bytes;
      }
      ASSERT_EQ(reserved, s.reserved_bytes);
      ASSERT_EQ(used, s.used_bytes);
      ASSERT_LE(s.reserved_high_water, kBudget);
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      const auto device = CreateCpuBackend(1);
      const std::string owner = "owner/" + std::to_string(t);
      for (int round = 0; round < kRounds; ++round) {
        const int64_t bytes = random() % 600;
        absl::StatusOr<Ledger::Reservation> held =
            random() % 2 == 0 ? ReserveOrWait(ledger, owner, Weights(bytes), {})
                              : ledger.Reserve(owner, Weights(bytes));
        if (!held.ok()) {
          ASSERT_TRUE(absl::IsResourceExhausted(held.status()));
          continue;
        }
        AccountBackend backend(*device, held->account());
        auto buffer = *backend.Allocate(bytes / 2);
        (void)held->TryResize(Weights(random() % 900));
        if (held->plan().total() >= bytes) {
          EXPECT_TRUE(backend.Allocate(bytes / 3).ok());
        }
        if (random() % 2 == 0) held->Release();
        buffer.reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  auditor.join();
  const LedgerSnapshot end = ledger.Snapshot();
  EXPECT_EQ(end.reserved_bytes, 0);
  EXPECT_EQ(end.used_bytes, 0);
  EXPECT_THAT(end.owners, IsEmpty());
  EXPECT_THAT(end.waiting, IsEmpty());
  EXPECT_GT(end.reserved_high_water, kBudget / 2);
}

}  // namespace
}  // namespace recurve
