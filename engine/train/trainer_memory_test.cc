// What a trainer holds in the ledgers of its devices, and that budgets decide
// where it computes but never what.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/model/initialize.h"
#include "engine/model/test_models.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/training_fit.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
    "blocks { sru { hidden_size: 16 dropout: 0.2 } } "
    "output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }";
constexpr char kConfig[] =
    "optimizer { adam {} } learning_rate { peak: 0.01 } micro_batch_rows: 16 "
    "accumulation_steps: 2 max_gradient_norm: 1 seed: 3";

// Bytes that a device of one thread must have for its part in two, with
// micro-batches of one sequence of `rows` rows.
int64_t BudgetFor(int64_t rows) {
  TrainingShape shape;
  shape.largest_micro_batch = {rows, rows > 0 ? 1 : 0};
  shape.num_moments = 2;
  shape.accumulates = true;
  shape.world_size = 2;
  shape.live_partials = 4;
  shape.exchange_pieces = 8;
  return (TrainingPlan(*MakeModel(kModel), shape) + WorkspacePlan(1)).total();
}

std::string Cpu(int64_t bytes) { return absl::StrCat("cpu:1:memory=", bytes); }

// Calls of short sequences, then calls with some that are longer than a
// micro-batch.
std::vector<Call> Calls(const Model& model) {
  return {RandomCall(model, {16, 9, 7, 16, 3, 12}, 0),
          RandomCall(model, {5, 16, 16, 16}, 1),
          RandomCall(model, {16, 200, 4, 190, 8, 8, 2}, 2),
          RandomCall(model, {200, 200, 1, 5, 5, 200}, 3),
          RandomCall(model, {16, 16, 16, 16}, 4),
          RandomCall(model, {200}, 5)};
}

std::vector<float> WeightsWithoutBudgets() {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  for (const Call& call : Calls(trainer.model())) trainer.Step(call);
  return trainer.Parameters();
}

// What the trainer holds on a device; nothing: absent there.
OwnerMemory HeldBy(const std::string& owner, DevicePool& pool, int device) {
  for (const OwnerMemory& one :
       pool.device(device).ledger().Snapshot().owners) {
    if (one.owner == owner) return one;
  }
  return {};
}

TEST(TrainerMemory, WhatIsAllocatedIsWhatIsReserved) {
  TestTrainer trainer("cpu:1,cpu:2,cpu:1", kModel, kConfig);
  const auto expect_equal = [&] {
    for (int device = 0; device < 3; ++device) {
      const OwnerMemory held = HeldBy("trainer", trainer.pool(), device);
      EXPECT_GT(held.used_bytes, 0);
      EXPECT_EQ(held.used_bytes, held.plan.total());
      EXPECT_EQ(held.used_bytes, held.reserved_bytes);
      EXPECT_EQ(held.used_bytes,
                trainer.pool().device(device).ledger().Snapshot().used_bytes);
    }
  };
  expect_equal();
  for (const Call& call : Calls(trainer.model())) {
    trainer.Step(call);
    expect_equal();
  }
}

TEST(TrainerMemory, EndsWithTheTrainer) {
  DevicePool pool(*ParseDevices("cpu:1,cpu:1"));
  const auto model = MakeModel(kModel);
  const int64_t before = pool.device(0).ledger().Snapshot().reserved_bytes;
  auto trainer =
      Trainer::Create(pool, model, InitializeParameters(*model, 1),
                      ParseTrainerConfig(kConfig), {.owner = "trainers/x"});
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto calls = Calls(*model);
  ASSERT_TRUE((*trainer)->Step(ToStepCall(calls[2])).ok());
  EXPECT_GT(HeldBy("trainers/x", pool, 1).reserved_bytes, 0);
  trainer->reset();
  for (int device = 0; device < 2; ++device) {
    const LedgerSnapshot snapshot = pool.device(device).ledger().Snapshot();
    EXPECT_EQ(HeldBy("trainers/x", pool, device).owner, "");
    EXPECT_EQ(snapshot.reserved_bytes, before);
    EXPECT_EQ(snapshot.used_bytes, 0);
  }
}

TEST(TrainerMemory, BudgetsDecideWhereButNotWhat) {
  const auto expected = WeightsWithoutBudgets();
  const std::string small = Cpu(BudgetFor(100)), large = Cpu(BudgetFor(1000));
  for (const std::string& devices :
       {absl::StrCat(small, ",", large), absl::StrCat(large, ",", small)}) {
    SCOPED_TRACE(devices);
    TestTrainer trainer(devices, kModel, kConfig);
    ASSERT_EQ(trainer->num_devices(), 2);
    const size_t small_rank = devices.find(small) == 0 ? 0 : 1;
    for (const Call& call : Calls(trainer.model())) {
      const StepResult result = trainer.Step(call);
      const bool has_long = call.batch.num_rows() > 190;
      EXPECT_EQ(result.devices[small_rank].micro_batches == 0, has_long);
      EXPECT_GT(result.devices[1 - small_rank].micro_batches, 0);
    }
    EXPECT_TRUE(SameBits(trainer.Parameters(), expected));
  }
}

TEST(TrainerMemory, ADeviceTooSmallForTheWeightsIsLeftOut) {
  const auto expected = WeightsWithoutBudgets();
  const std::string tiny = Cpu(WorkspacePlan(1).total() + 1000);
  for (const std::string& devices :
       {absl::StrCat(tiny, ",cpu:1,cpu:2"), absl::StrCat("cpu:1,", tiny),
        absl::StrCat("cpu:1,", tiny, ",cpu:1")}) {
    SCOPED_TRACE(devices);
    TestTrainer trainer(devices, kModel, kConfig);
    EXPECT_EQ(trainer->num_devices(), trainer.pool().size() - 1);
    for (const Call& call : Calls(trainer.model())) {
      const StepResult result = trainer.Step(call);
      ASSERT_EQ(result.devices.size(), trainer.pool().size() - 1);
    }
    EXPECT_TRUE(SameBits(trainer.Parameters(), expected));
  }
}

TEST(TrainerMemory, ACallThatFitsNowhereIsRefusedAndChangesNothing) {
  const auto expected = WeightsWithoutBudgets();
  const std::string devices =
      absl::StrCat(Cpu(BudgetFor(240)), ",", Cpu(BudgetFor(300)));
  TestTrainer trainer(devices, kModel, kConfig);
  const Call too_long = RandomCall(trainer.model(), {16, 900, 16}, 9);
  for (const Call& call : Calls(trainer.model())) {
    const auto before = HeldBy("trainer", trainer.pool(), 0).plan;
    const absl::Status refused = trainer.TryStep(too_long).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("activations"));
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr("the budget of devices/0 is"));
    EXPECT_EQ(HeldBy("trainer", trainer.pool(), 0).plan, before);
    trainer.Step(call);
  }
  EXPECT_TRUE(SameBits(trainer.Parameters(), expected));
}

// The number that stands after `words` in a refusal.
int64_t NumberAfter(const std::string& words, const absl::Status& refused) {
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr(words));
  return std::atoll(message.c_str() + message.find(words) + words.size());
}

TEST(TrainerMemory, ARefusedCallSaysWhatWouldFit) {
  const std::string devices =
      absl::StrCat(Cpu(BudgetFor(240)), ",", Cpu(BudgetFor(300)));
  TestTrainer trainer(devices, kModel, kConfig);
  const auto step = [&](const std::vector<int64_t>& lengths) {
    return trainer.TryStep(RandomCall(trainer.model(), lengths, 9)).status();
  };
  const int64_t longest =
      NumberAfter("the longest sequence that fits has ", step({9000}));
  EXPECT_GE(longest, 300);
  EXPECT_FALSE(step({longest + 1}).ok());
  EXPECT_TRUE(step({longest}).ok());
}

TEST(TrainerMemory, ARefusedCallOfShortSequencesSaysWhatMicroBatchWouldFit) {
  const auto config = [](int64_t rows) {
    return absl::StrReplaceAll(
        kConfig,
        {{"micro_batch_rows: 16", absl::StrCat("micro_batch_rows: ", rows)}});
  };
  const std::string devices = Cpu(BudgetFor(300));
  const std::vector<int64_t> lengths(2000, 1);
  const auto step = [&](int64_t rows) {
    TestTrainer trainer(devices, kModel, config(rows));
    return trainer.TryStep(RandomCall(trainer.model(), lengths, 9)).status();
  };
  const int64_t rows = NumberAfter(
      "the largest micro-batch (trainer.micro_batch_rows) that fits has ",
      step(2000));
  EXPECT_GT(rows, 100);
  EXPECT_FALSE(step(2 * rows).ok());
}

TEST(TrainerMemory, MemoryThatOthersHoldIsDoneWithout) {
  const auto expected = WeightsWithoutBudgets();
  const std::string one = Cpu(BudgetFor(1000));
  TestTrainer trainer(absl::StrCat(one, ",", one), kModel, kConfig);
  const auto calls = Calls(trainer.model());
  Ledger& ledger = trainer.pool().device(0).ledger();
  MemoryPlan rest;
  rest.weights = ledger.budget_bytes() - ledger.Snapshot().reserved_bytes -
                 BudgetFor(16) + WorkspacePlan(1).total();
  auto other = ledger.Reserve("other", rest);
  ASSERT_TRUE(other.ok()) << other.status();
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i == 3) other->Release();
    const StepResult result = trainer.Step(calls[i]);
    if (i == 2) {
      EXPECT_EQ(result.devices[0].micro_batches, 0);
    }
    if (i == 3) {
      EXPECT_GT(result.devices[0].micro_batches, 0);
    }
  }
  EXPECT_TRUE(SameBits(trainer.Parameters(), expected));
}

TEST(TrainerMemory, ADeviceThatOthersFillIsLeftOut) {
  const int64_t budget = BudgetFor(1000);
  DevicePool pool(*ParseDevices(absl::StrCat(Cpu(budget), ",", Cpu(budget))));
  MemoryPlan all;
  all.weights = budget - WorkspacePlan(1).total();
  const auto first = pool.device(0).ledger().Reserve("other", all);
  ASSERT_TRUE(first.ok());
  const auto create = [&] {
    const auto model = MakeModel(kModel);
    return Trainer::Create(pool, model, InitializeParameters(*model, 1),
                           ParseTrainerConfig(kConfig));
  };
  const auto trainer = create();
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_EQ((*trainer)->num_devices(), 1);
  EXPECT_EQ(HeldBy("trainer", pool, 0).owner, "");

  MemoryPlan rest;
  rest.weights = budget - pool.device(1).ledger().Snapshot().reserved_bytes;
  const auto second = pool.device(1).ledger().Reserve("other", rest);
  ASSERT_TRUE(second.ok());
  const absl::Status refused = create().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr(", other "));
}

// --- Runs whose batches are known ---

TrainerOptions RunOf(int64_t sequences, int64_t length) {
  TrainerOptions options;
  options.owner = "jobs/x";
  options.calls = {sequences * length, sequences, length, length};
  return options;
}

TEST(TrainerMemory, ARunReservesAndAllocatesAllAtItsStart) {
  for (const char* devices : {"cpu:1", "cpu:1,cpu:2,cpu:1"}) {
    TestTrainer trainer(devices, kModel, kConfig, CreateBackend, RunOf(12, 24));
    std::vector<int64_t> bytes;
    for (int device = 0; device < trainer.pool().size(); ++device) {
      const OwnerMemory held = HeldBy("jobs/x", trainer.pool(), device);
      EXPECT_EQ(held.used_bytes, held.plan.total());
      bytes.push_back(held.used_bytes);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      trainer.Step(
          RandomCall(trainer.model(), std::vector<int64_t>(12 - i, 24 - i), i));
    }
    for (int device = 0; device < trainer.pool().size(); ++device) {
      const OwnerMemory held = HeldBy("jobs/x", trainer.pool(), device);
      EXPECT_EQ(held.used_high_water, bytes[device]);
      EXPECT_EQ(held.used_bytes, bytes[device]);
    }
  }
}

TEST(TrainerMemory, ARunThatFitsNowhereIsRefusedWithWhatWouldFit) {
  DevicePool pool(*ParseDevices(
      absl::StrCat(Cpu(BudgetFor(100)), ",", Cpu(BudgetFor(200)))));
  const auto model = MakeModel(kModel);
  v1::TrainerConfig config = ParseTrainerConfig(kConfig);
  config.set_micro_batch_rows(4096);
  const absl::Status status =
      Trainer::Create(pool, model, InitializeParameters(*model, 1), config,
                      RunOf(64, 64))
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("activations"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the largest trainer.micro_batch_rows that fits is"));
  EXPECT_EQ(pool.device(1).ledger().Snapshot().used_bytes, 0);
}

TEST(TrainerMemory, TrainingIsOnDevicesOfOneKind) {
  // Whatever they are called, they compute.
  const BackendFactory factory = [](const DeviceSpec&) {
    return CreateBackend(DeviceSpec());
  };
  TestTrainer trainer("cpu:1,cuda:0,cpu:1,cuda:0", kModel, kConfig, factory,
                      RunOf(12, 24));
  trainer.Step(RandomCall(trainer.model(), std::vector<int64_t>(12, 24), 1));
  for (const int device : {0, 2}) {
    EXPECT_EQ(trainer.pool().device(device).ledger().Snapshot().used_bytes, 0);
  }
  for (const int device : {1, 3}) {
    EXPECT_GT(trainer.pool().device(device).ledger().Snapshot().used_bytes, 0);
  }
}

class WaitingRun : public ::testing::Test {
 protected:
  WaitingRun() {
    MemoryPlan rest;
    rest.weights = BudgetFor(1000) - WorkspacePlan(1).total();
    other_ = *pool_.device(0).ledger().Reserve("trainers/other", rest);
  }

  absl::Status Create(std::function<void(const std::string&)> on_wait) {
    const auto model = MakeModel(kModel);
    TrainerOptions options = RunOf(12, 24);
    options.wait = {.cancelled = &cancelled_, .on_wait = std::move(on_wait)};
    return Trainer::Create(pool_, model, InitializeParameters(*model, 1),
                           ParseTrainerConfig(kConfig), options)
        .status();
  }

  DevicePool pool_{*ParseDevices(Cpu(BudgetFor(1000)))};
  Ledger::Reservation other_;
  std::atomic<bool> cancelled_ = false;
};

TEST_F(WaitingRun, BeginsOnceThereIsRoom) {
  std::string reason;
  const absl::Status status = Create([&](const std::string& text) {
    reason = text;
    other_.Release();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(reason, HasSubstr(", trainers/other "));
}

TEST_F(WaitingRun, CanBeCancelled) {
  const absl::Status status =
      Create([&](const std::string&) { cancelled_ = true; });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(pool_.device(0).ledger().Snapshot().waiting.empty());
}

}  // namespace
}  // namespace recurve
