// What a trainer does when something goes wrong, or comes in between: errors of
// a device, cancellation, other work.
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "engine/model/initialize.h"
#include "engine/model/test_models.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/forwarding_backend.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
    "blocks { sru { hidden_size: 16 dropout: 0.2 } } "
    "output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }";
constexpr char kConfig[] =
    "optimizer { adam {} } learning_rate { peak: 0.01 } micro_batch_rows: 8 "
    "accumulation_steps: 2 max_gradient_norm: 1 seed: 3";

// Of different sizes, so that a factory can tell them apart.
constexpr char kTwoDevices[] = "cpu:1,cpu:2";

// Calls a function before every operation of a device.
class HookedBackend : public ForwardingBackend {
 public:
  using Hook = std::function<absl::Status(const std::string& operation)>;
  HookedBackend(std::unique_ptr<Backend> to, const Hook& hook)
      : ForwardingBackend(std::move(to)), hook_(hook) {}

 protected:
  absl::Status Before(const char* operation) override {
    return hook_(operation);
  }

 private:
  const Hook hook_;
};

// Hooks the device with this number of threads.
BackendFactory Hooked(int threads, const HookedBackend::Hook& hook) {
  return [=](const DeviceSpec& spec) -> std::unique_ptr<Backend> {
    auto backend = CreateCpuBackend(spec.threads);
    if (spec.threads != threads) return backend;
    return std::make_unique<HookedBackend>(std::move(backend), hook);
  };
}

// Does something once, before the n-th operation after Arm(n).
class Trap {
 public:
  explicit Trap(std::function<absl::Status(const std::string&)> spring)
      : spring_(std::move(spring)) {}

  void Arm(int64_t n) { left_ = n; }
  void Disarm() {
    if (!sprung()) left_ = -1;
  }
  bool sprung() const { return left_ == 0; }
  absl::Status operator()(const std::string& operation) {
    if (left_ <= 0 || --left_ > 0) return absl::OkStatus();
    return spring_(operation);
  }

 private:
  const std::function<absl::Status(const std::string&)> spring_;
  std::atomic<int64_t> left_ = -1;
};

// Calls 0 and 1 make the first optimizer step, 2 and 3 the second; each goes on
// where the one before ended.
std::vector<Call> FourCalls(const Model& model) {
  std::vector<Call> calls;
  for (uint32_t i = 0; i < 4; ++i) {
    calls.push_back(RandomCall(model, {3, 4, 9, 2, 6, 5}, i));
    calls.back().continue_streams = i > 0;
  }
  return calls;
}

std::vector<float> UndisturbedWeights() {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  for (const Call& call : FourCalls(trainer.model())) trainer.Step(call);
  return trainer.Parameters();
}

struct Disturbed {
  absl::Status first_try;
  absl::Status second_try;
  std::vector<float> weights;  // empty if the second try failed
};

// Makes the calls; for the one at `disturbed` the trap is armed, and if it
// fails it is made again.
Disturbed TrainDisturbed(TestTrainer& trainer, size_t disturbed, Trap& trap,
                         int64_t operation,
                         std::atomic<bool>* cancelled = nullptr) {
  Disturbed outcome;
  const auto calls = FourCalls(trainer.model());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (i == disturbed) {
      trap.Arm(operation);
      StepCall call = ToStepCall(calls[i]);
      call.cancelled = cancelled;
      outcome.first_try = trainer->Step(call).status();
      trap.Disarm();
      if (outcome.first_try.ok()) continue;
      outcome.second_try = trainer.TryStep(calls[i]).status();
      if (!outcome.second_try.ok()) return outcome;
    } else {
      trainer.Step(calls[i]);
    }
  }
  outcome.weights = trainer.Parameters();
  return outcome;
}

TEST(TrainerFaults, FailedOperationChangesNothingOrStopsTheTrainer) {
  const auto expected = UndisturbedWeights();
  std::map<std::string, int> harmless, fatal;  // by operation
  for (const int device : {1, 2}) {
    for (const size_t disturbed : {0, 1, 2, 3}) {
      for (int64_t n = 1;; ++n) {
        std::string failed;
        Trap trap([&](const std::string& operation) {
          failed = operation;
          return absl::InternalError("injected");
        });
        TestTrainer trainer(kTwoDevices, kModel, kConfig,
                            Hooked(device, std::ref(trap)));
        const Disturbed outcome = TrainDisturbed(trainer, disturbed, trap, n);
        if (!trap.sprung()) break;
        ASSERT_EQ(outcome.first_try.code(), absl::StatusCode::kInternal);
        ASSERT_THAT(std::string(outcome.first_try.message()),
                    HasSubstr("injected"));
        if (outcome.second_try.ok()) {
          ++harmless[failed];
          ASSERT_TRUE(SameBits(outcome.weights, expected)) << failed;
        } else {
          ++fatal[failed];
          ASSERT_THAT(std::string(outcome.second_try.message()),
                      HasSubstr("the trainer cannot go on"));
          ASSERT_EQ(trainer->Parameters().status(), outcome.second_try);
        }
      }
    }
  }
  // Waiting for a device is fatal after its update, and harmless before.
  EXPECT_THAT(fatal, testing::ElementsAre(testing::Key("Synchronize"),
                                          testing::Key("Update")));
  for (const char* operation :
       {"Allocate", "Upload", "Download", "Copy", "SruForward", "SruBackward",
        "LinearBackward", "CrossEntropy", "FillMask", "Add", "SumOfSquares",
        "Synchronize"}) {
    EXPECT_GT(harmless[operation], 0) << operation;
  }
}

TEST(TrainerFaults, CancellationBetweenMicroBatchesChangesNothing) {
  const auto expected = UndisturbedWeights();
  int cancellations = 0, too_late = 0;
  for (const int device : {1, 2}) {
    for (const size_t disturbed : {0, 1, 2, 3}) {
      for (int64_t n = 1;; ++n) {
        std::atomic<bool> cancelled = false;
        Trap trap([&](const std::string&) {
          cancelled = true;
          return absl::OkStatus();
        });
        TestTrainer trainer(kTwoDevices, kModel, kConfig,
                            Hooked(device, std::ref(trap)));
        const Disturbed outcome =
            TrainDisturbed(trainer, disturbed, trap, n, &cancelled);
        if (!trap.sprung()) break;
        if (outcome.first_try.ok()) {
          ++too_late;
        } else {
          ++cancellations;
          ASSERT_TRUE(absl::IsCancelled(outcome.first_try));
        }
        ASSERT_TRUE(SameBits(outcome.weights, expected));
      }
    }
  }
  EXPECT_GT(cancellations, 50);
  EXPECT_GT(too_late, 8);  // exchange and update are not cut off
}

TEST(TrainerFaults, CancelledBeforeItBeginsChangesNothing) {
  TestTrainer trainer(kTwoDevices, kModel, kConfig);
  const auto before = trainer.Parameters();
  const Call call = RandomCall(trainer.model(), {3, 4, 9}, 1);
  const std::atomic<bool> cancelled = true;
  StepCall step = ToStepCall(call);
  step.cancelled = &cancelled;
  EXPECT_TRUE(absl::IsCancelled(trainer->Step(step).status()));
  EXPECT_TRUE(SameBits(trainer.Parameters(), before));
  EXPECT_EQ(trainer->step(), 0);
}

TEST(TrainerFaults, BadBatchChangesNothing) {
  const auto expected = UndisturbedWeights();
  TestTrainer trainer(kTwoDevices, kModel, kConfig);
  const auto refused = [&](Call call, const char* message) {
    const absl::Status status = trainer.TryStep(call).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  for (const Call& call : FourCalls(trainer.model())) {
    refused({}, "");
    Call bad = call;
    bad.batch.tokens[2] = 12;
    refused(bad, "12");
    bad = call;
    bad.targets.classes.pop_back();
    refused(bad, "targets");
    bad = call;
    for (float& weight : bad.targets.weights) weight = 0;
    refused(bad, "total weight of the rows that count is 0");
    bad = call;
    for (int32_t& target : bad.targets.classes) target = -1;
    refused(bad, "total weight of the rows that count is 0");
    trainer.Step(call);
  }
  EXPECT_TRUE(SameBits(trainer.Parameters(), expected));
}

// --- Other work ---

TEST(TrainerBesideOthers, TwoTrainersAndServingDoNotDisturbEachOther) {
  const auto expected = UndisturbedWeights();
  DevicePool pool(*ParseDevices("cpu:1,cpu:1,cpu:1"));
  constexpr int kServed = 100;  // at least
  std::atomic<bool> training = true;
  std::atomic<int> served = 0;
  std::vector<std::vector<float>> weights(2);
  std::vector<std::thread> threads;
  for (auto& mine : weights) {
    threads.emplace_back([&] {
      // Over and over, so that the two meet in many ways.
      for (int round = 0; round < 20 || served < kServed; ++round) {
        const auto model = MakeModel(kModel);
        auto trainer =
            Trainer::Create(pool, model, InitializeParameters(*model, 1),
                            ParseTrainerConfig(kConfig));
        if (!trainer.ok()) return;
        for (const Call& call : FourCalls(*model)) {
          const auto result = (*trainer)->Step(ToStepCall(call));
          if (!result.ok()) return;
        }
        mine = *(*trainer)->Parameters();
        if (!SameBits(mine, expected)) return;
      }
    });
  }
  std::thread clients([&] {
    for (int next = 0; training; next = (next + 1) % pool.size()) {
      absl::Notification done;
      pool.device(next).Enqueue(TaskClass::kServing, [&](Backend&) {
        ++served;
        done.Notify();
      });
      done.WaitForNotification();
    }
  });
  for (std::thread& thread : threads) thread.join();
  training = false;
  clients.join();
  EXPECT_TRUE(SameBits(weights[0], expected));
  EXPECT_TRUE(SameBits(weights[1], expected));
  EXPECT_GE(served, kServed);
}

TEST(TrainerBesideOthers, ServesBetweenMicroBatches) {
  // What the device does: m, a micro-batch; s, a served task.
  std::string log;
  TestTrainer* running = nullptr;
  const auto hook = [&](const std::string& operation) {
    if (operation == "CrossEntropy") {
      log += 'm';
      running->pool().device(0).Enqueue(TaskClass::kServing,
                                        [&](Backend&) { log += 's'; });
    }
    return absl::OkStatus();
  };
  TestTrainer trainer("cpu:1", kModel, kConfig, Hooked(1, hook));
  running = &trainer;
  trainer.Step(RandomCall(trainer.model(), {8, 8, 8}, 1));
  trainer.Parameters();  // after what is served last
  EXPECT_EQ(log, "msmsms");
}

TEST(TrainerMemory, NothingIsAllocatedAfterTheFirstSteps) {
  std::atomic<int> allocations = 0;
  const auto hook = [&](const std::string& operation) {
    allocations += operation == "Allocate";
    return absl::OkStatus();
  };
  TestTrainer trainer("cpu:1,cpu:1", kModel, kConfig, Hooked(1, hook));
  const auto calls = FourCalls(trainer.model());
  for (const Call& call : calls) trainer.Step(call);
  const int warm = allocations;
  const int64_t bytes = trainer.pool().device(0).ledger().Snapshot().used_bytes;
  EXPECT_GT(warm, 0);
  EXPECT_GT(bytes, 0);
  for (const Call& call : calls) trainer.Step(call);
  EXPECT_EQ(allocations, warm);
  EXPECT_EQ(trainer.pool().device(0).ledger().Snapshot().used_bytes, bytes);
}

TEST(TrainerMemory, IsReleasedWithTheTrainer) {
  DevicePool pool(*ParseDevices("cpu:1,cpu:1"));
  const auto model = MakeModel(kModel);
  {
    auto trainer = Trainer::Create(pool, model, InitializeParameters(*model, 1),
                                   ParseTrainerConfig(kConfig));
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_GT(pool.device(1).ledger().Snapshot().used_bytes, 0);
  }
  EXPECT_EQ(pool.device(0).ledger().Snapshot().used_bytes, 0);
  EXPECT_EQ(pool.device(1).ledger().Snapshot().used_bytes, 0);
}

TEST(TrainerMemory, FailedCreationReleasesAll) {
  const auto model = MakeModel(kModel);
  for (int64_t n = 1;; ++n) {
    Trap trap([](const std::string&) {
      return absl::ResourceExhaustedError("injected");
    });
    DevicePool pool(*ParseDevices(kTwoDevices), Hooked(2, std::ref(trap)));
    trap.Arm(n);
    const auto trainer =
        Trainer::Create(pool, model, InitializeParameters(*model, 1),
                        ParseTrainerConfig(kConfig));
    if (!trap.sprung()) break;
    EXPECT_EQ(trainer.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(pool.device(0).ledger().Snapshot().used_bytes, 0);
    EXPECT_EQ(pool.device(1).ledger().Snapshot().used_bytes, 0);
  }
}

}  // namespace
}  // namespace recurve
