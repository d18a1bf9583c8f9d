#include "engine/train/trainer_store.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "engine/base/testing/fault_file_calls.h"
#include "engine/base/testing/faults.h"
#include "engine/model/initialize.h"
#include "engine/model/test_models.h"
#include "engine/train/trainer_test_util.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr char kModel[] =
    "input { token_embedding { vocabulary_size: 5 embedding_size: 4 } } "
    "blocks { sru { hidden_size: 6 dropout: 0.1 } } "
    "output { linear { size: 5 } } loss { kind: CROSS_ENTROPY }";
constexpr char kOtherModel[] =
    "input { token_embedding { vocabulary_size: 5 embedding_size: 4 } } "
    "blocks { sru { hidden_size: 8 } } "
    "output { linear { size: 5 } } loss { kind: CROSS_ENTROPY }";
constexpr char kConfig[] =
    "optimizer { adam {} } learning_rate { peak: 0.01 } seed: 3 "
    "accumulation_steps: 2";

void ExpectCode(const absl::Status& status, StatusCode code,
                absl::string_view words = "") {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(status.message().find(words), absl::string_view::npos) << status;
}

void ExpectSame(const StepResult& a, const StepResult& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.updated, b.updated);
  EXPECT_EQ(a.accumulated_calls, b.accumulated_calls);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.weight, b.weight);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  EXPECT_EQ(a.learning_rate, b.learning_rate);
  EXPECT_EQ(a.rows, b.rows);
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (size_t i = 0; i < a.devices.size(); ++i) {
    EXPECT_EQ(a.devices[i].device, b.devices[i].device);
    EXPECT_EQ(a.devices[i].rows, b.devices[i].rows);
    EXPECT_EQ(a.devices[i].compute_ms, b.devices[i].compute_ms);
    EXPECT_EQ(a.devices[i].exchange_ms, b.devices[i].exchange_ms);
    EXPECT_EQ(a.devices[i].update_ms, b.devices[i].update_ms);
  }
}

class TrainerStoreTest : public testing::Test {
 protected:
  TrainerStoreTest()
      : directory_(absl::StrCat(
            testing::TempDir(), "/trainers.",
            testing::UnitTest::GetInstance()->current_test_info()->name())),
        pool_(*ParseDevices("cpu:1")) {
    fs::remove_all(directory_);
    options_.directory = directory_;
    options_.context.devices = &pool_;
    options_.context.now = [this] { return now_; };
    options_.context.warn = [this](const std::string& text) {
      warnings_.push_back(text);
    };
    options_.context.drop_weights = [this](const ModelVersion&) {
      ++dropped_;
      if (const auto what = std::exchange(on_drop_, nullptr)) what();
    };
    Reopen();
  }
  ~TrainerStoreTest() override {
    store_.reset();
    fs::remove_all(directory_);
  }

  // As after a kill: nothing is saved before.
  void Reopen() {
    store_.reset();
    auto store = TrainerStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static absl::StatusOr<TrainerStart> Start(const char* model,
                                            int64_t save_every_calls) {
    TrainerStart start;
    start.origin.model_name = "models/lm";
    start.origin.model = MakeModel(model);
    start.origin.vocabulary = {"a", "b", "c", "d", "e"};
    start.origin.names = DefaultNames(*start.origin.model);
    start.origin.config = ParseTrainerConfig(kConfig);
    start.origin.save_every_calls = save_every_calls;
    start.parameters = InitializeParameters(*start.origin.model, 1);
    return start;
  }
  void Create(const std::string& id, int64_t save_every_calls = 0,
              const char* model = kModel) {
    const auto created = store_->Create(id, absl::StrCat("request ", id), [&] {
      return Start(model, save_every_calls);
    });
    ASSERT_TRUE(created.ok()) << created.status();
  }

  // The call of that number: the same batch whenever it is made.
  absl::StatusOr<StepResult> TryStep(absl::string_view id, int64_t number) {
    static const auto model = MakeModel(kModel);
    const Call call = RandomCall(*model, {3, 4}, static_cast<uint32_t>(number));
    NumberedStep step;
    step.call.batch = &call.batch;
    step.call.targets = &call.targets;
    step.call.continue_streams = number > 1;
    step.number = number;
    step.request_sha256 = absl::StrCat("call ", number);
    return store_->Step(id, step);
  }
  StepResult Step(absl::string_view id, int64_t number) {
    auto result = TryStep(id, number);
    EXPECT_TRUE(result.ok()) << number << ": " << result.status();
    return result.ok() ? *result : StepResult();
  }
  void Steps(absl::string_view id, int64_t first, int64_t last) {
    for (int64_t n = first; n <= last; ++n) Step(id, n);
  }

  TrainerInfo Info(absl::string_view id) {
    auto info = store_->Get(id);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : TrainerInfo();
  }
  std::vector<float> Weights(absl::string_view id) {
    const auto weights = store_->Weights(id, absl::InfiniteFuture());
    EXPECT_TRUE(weights.ok()) << weights.status();
    return weights.ok() ? **(*weights)->Parameters() : std::vector<float>();
  }
  // Those of a trainer that made calls 1 to `last` without any disturbance.
  std::vector<float> UndisturbedWeights(int64_t last) {
    Create("undisturbed");
    Steps("undisturbed", 1, last);
    std::vector<float> weights = Weights("undisturbed");
    EXPECT_TRUE(store_->Delete("undisturbed").ok());
    return weights;
  }

  // Makes calls 1 and 2, and runs `what` while the second one has its turn.
  void DuringACall(absl::string_view id, std::function<void()> what) {
    Weights(id);  // which the second call drops
    on_drop_ = std::move(what);
    Steps(id, 1, 2);
    EXPECT_EQ(on_drop_, nullptr);
  }

  // Paths of the trainer's checkpoints for restarts, newest last.
  std::vector<std::string> RestartFiles(const std::string& id) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(
             absl::StrCat(directory_, "/", id, "/restart"))) {
      files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  // Changes a byte near the end, where tensors and checksum are.
  static void Damage(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-100, std::ios::end);
    const char byte = static_cast<char>(file.get());
    file.seekp(-100, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
    ASSERT_TRUE(file.good());
  }

  // Into another one, as a record's bytes have it.
  static void DamageLearningRate(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const size_t at = bytes.rfind("\x0d\x0a\xd7\x23\x3c");  // peak: 0.01
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at) + 3);
    file.put('\x24');
    ASSERT_TRUE(file.good());
  }

  const std::string directory_;
  DevicePool pool_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  std::vector<std::string> warnings_;
  int dropped_ = 0;
  std::function<void()> on_drop_;
  TrainerStore::Options options_;
  std::unique_ptr<TrainerStore> store_;
};

// --- Creation and deletion ---

TEST_F(TrainerStoreTest, ACreatedTrainerSurvivesAKill) {
  Create("t", 7);
  Reopen();
  const TrainerInfo info = Info("t");
  EXPECT_EQ(info.id, "t");
  EXPECT_EQ(info.step, 0);
  EXPECT_FALSE(info.loaded);
  const TrainerOrigin& origin = *info.origin;
  EXPECT_EQ(origin.model_name, "models/lm");
  EXPECT_EQ(origin.request_id, "request t");
  EXPECT_EQ(origin.create_time, now_);
  EXPECT_EQ(origin.vocabulary, Start(kModel, 0)->origin.vocabulary);
  EXPECT_EQ(origin.save_every_calls, 7);
  EXPECT_EQ(origin.config.seed(), 3u);
  ASSERT_TRUE(origin.names.has_value());
  EXPECT_EQ(origin.names->blocks[0].prefix,
            DefaultNames(*origin.model).blocks[0].prefix);
  EXPECT_TRUE(SameBits(Weights("t"), Start(kModel, 0)->parameters));
}

TEST_F(TrainerStoreTest, ARequestSeenBeforeGivesTheSameTrainer) {
  Create("a");
  Reopen();
  const auto again =
      store_->Create("b", "request a", [] { return Start(kModel, 0); });
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id, "a");
  ExpectCode(store_->Create("a", "", [] { return Start(kModel, 0); }).status(),
             StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->List("", 10).size(), 1u);
}

TEST_F(TrainerStoreTest, ATrainerBeingMadeIsNotThereYet) {
  const auto created = store_->Create("a", "r", [&] {
    ExpectCode(store_->Get("a").status(), StatusCode::kNotFound);
    ExpectCode(store_->Delete("a"), StatusCode::kNotFound);
    ExpectCode(
        store_->Create("x", "r", [] { return Start(kModel, 0); }).status(),
        StatusCode::kAborted);
    return Start(kModel, 0);
  });
  EXPECT_TRUE(created.ok()) << created.status();
}

TEST_F(TrainerStoreTest, WhatCannotBeMadeLeavesNothing) {
  options_.max_stored = 1;
  Reopen();
  ExpectCode(store_
                 ->Create("a", "r",
                          []() -> absl::StatusOr<TrainerStart> {
                            return absl::NotFoundError("no data");
                          })
                 .status(),
             StatusCode::kNotFound);
  Create("a");
  EXPECT_EQ(store_->List("", 10).size(), 1u);
}

TEST_F(TrainerStoreTest, TrainersOnDiskAreBounded) {
  options_.max_stored = 1;
  Reopen();
  Create("a");
  ExpectCode(store_->Create("b", "", [] { return Start(kModel, 0); }).status(),
             StatusCode::kResourceExhausted, "1 trainers on disk");
}

TEST_F(TrainerStoreTest, ListsById) {
  for (const char* id : {"c", "a", "b"}) Create(id);
  const auto page = store_->List("a", 1);
  ASSERT_EQ(page.size(), 1u);
  EXPECT_EQ(page[0].id, "b");
  EXPECT_EQ(store_->List("", 10).size(), 3u);
}

TEST_F(TrainerStoreTest, DeletionRemovesItsFiles) {
  Create("a");
  Step("a", 1);
  ASSERT_TRUE(store_->Save("a", "kept").ok());
  EXPECT_TRUE(store_->Delete("a").ok());
  ExpectCode(store_->Delete("a"), StatusCode::kNotFound);
  ExpectCode(TryStep("a", 2).status(), StatusCode::kNotFound);
  EXPECT_TRUE(fs::is_empty(directory_));
  Create("a");  // the id is free again
  EXPECT_EQ(Info("a").last_number, 0);
}

TEST_F(TrainerStoreTest, DeletionFreesMemoryForOthers) {
  options_.max_loaded = 1;
  Reopen();
  for (int i = 0; i < 3; ++i) {
    Create("a");
    EXPECT_TRUE(Info("a").loaded);
    EXPECT_TRUE(store_->Delete("a").ok());
  }
}

// --- Numbered calls ---

TEST_F(TrainerStoreTest, ACallMadeAgainGetsTheSameReplyAndChangesNothing) {
  Create("t");
  std::vector<StepResult> first;
  for (int64_t n = 1; n <= 4; ++n) first.push_back(Step("t", n));
  const std::vector<float> weights = Weights("t");
  for (int64_t n : {4, 1, 3, 4}) ExpectSame(Step("t", n), first[n - 1]);
  EXPECT_TRUE(SameBits(Weights("t"), weights));
  EXPECT_EQ(Info("t").last_number, 4);
  EXPECT_EQ(Info("t").step, 2);
}

TEST_F(TrainerStoreTest, AGapIsRefusedAndChangesNothing) {
  Create("t");
  Steps("t", 1, 3);
  ExpectCode(TryStep("t", 5).status(), StatusCode::kFailedPrecondition,
             "go on from number 4");
  Step("t", 4);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(4)));
}

TEST_F(TrainerStoreTest, AFailedOrCancelledCallLeavesItsNumber) {
  Create("t");
  Step("t", 1);
  Call call = RandomCall(*MakeModel(kModel), {3}, 9);
  NumberedStep bad;
  bad.number = 2;
  bad.call.batch = &call.batch;
  bad.call.targets = &call.targets;
  call.batch.tokens[1] = 5;  // no such token
  ExpectCode(store_->Step("t", bad).status(), StatusCode::kInvalidArgument);
  call.batch.tokens[1] = 0;
  const std::atomic<bool> cancelled = true;
  bad.call.cancelled = &cancelled;
  ExpectCode(store_->Step("t", bad).status(), StatusCode::kCancelled);
  EXPECT_EQ(Info("t").last_number, 1);
  Step("t", 2);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(2)));
}

TEST_F(TrainerStoreTest, CallsWithoutANumberDoNotCount) {
  Create("t");
  Step("t", 1);
  Step("t", 0);
  EXPECT_EQ(Info("t").last_number, 1);
  EXPECT_EQ(Info("t").step, 1);
  Step("t", 2);
}

TEST_F(TrainerStoreTest, OfTwoClientsOneWinsEachNumber) {
  constexpr int64_t kCalls = 40;
  Create("t");
  const auto model = MakeModel(kModel);
  std::vector<std::atomic<int>> wins(kCalls + 1);
  std::vector<std::thread> clients;
  for (int client = 0; client < 2; ++client) {
    clients.emplace_back([&, client] {
      const Call call = RandomCall(*model, {2, 3}, client);
      NumberedStep step;
      step.call.batch = &call.batch;
      step.call.targets = &call.targets;
      step.request_sha256 = absl::StrCat("client ", client);
      for (step.number = 1; step.number <= kCalls;) {
        const auto result = store_->Step("t", step);
        if (absl::IsAborted(result.status())) continue;  // the other one's turn
        // Else the number is the other client's, now or long ago.
        if (result.ok()) ++wins[step.number];
        EXPECT_TRUE(result.ok() || absl::IsInvalidArgument(result.status()) ||
                    absl::IsFailedPrecondition(result.status()))
            << result.status();
        ++step.number;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  for (int64_t n = 1; n <= kCalls; ++n) EXPECT_EQ(wins[n], 1) << n;
  EXPECT_EQ(Info("t").last_number, kCalls);
  EXPECT_EQ(Info("t").step, kCalls / 2);
}

// --- Restarts ---

TEST_F(TrainerStoreTest, SavedAfterEachCallNoneIsLost) {
  Create("t", 1);
  for (int64_t n = 1; n <= 7; ++n) {
    const StepResult result = Step("t", n);
    Reopen();
    EXPECT_EQ(Info("t").last_number, n);
    EXPECT_EQ(Info("t").step, n / 2);
    ExpectSame(Step("t", n), result);
  }
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(7)));
}

TEST_F(TrainerStoreTest, AfterAKillItGoesOnFromTheLastSave) {
  Create("t");
  Steps("t", 1, 3);
  ASSERT_TRUE(store_->Save("t", "").ok());
  Steps("t", 4, 5);
  EXPECT_EQ(Info("t").saved_number, 3);
  Reopen();
  EXPECT_EQ(Info("t").last_number, 3);
  EXPECT_EQ(Info("t").accumulated_calls, 1);
  ExpectCode(TryStep("t", 6).status(), StatusCode::kFailedPrecondition,
             "go on from number 4");
  Steps("t", 4, 6);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(6)));
}

TEST_F(TrainerStoreTest, SaveAllLosesNothing) {
  Create("t");
  Steps("t", 1, 5);
  store_->SaveAll();
  Reopen();
  EXPECT_EQ(Info("t").last_number, 5);
}

TEST_F(TrainerStoreTest, ADamagedCheckpointCostsTheCallsAfterTheOneBefore) {
  Create("t", 1);
  Steps("t", 1, 3);
  store_.reset();
  Damage(RestartFiles("t").back());
  Reopen();
  ExpectCode(TryStep("t", 4).status(), StatusCode::kFailedPrecondition,
             "go on from number 3");
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(Info("t").last_number, 2);
  Steps("t", 3, 4);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(4)));
}

// A description reads without a look at the checksum.
TEST_F(TrainerStoreTest, ADamagedCheckpointsSettingsAreNotTrainedWith) {
  Create("t", 1);
  Steps("t", 1, 3);
  store_.reset();
  DamageLearningRate(RestartFiles("t").back());
  Reopen();
  ExpectCode(TryStep("t", 4).status(), StatusCode::kFailedPrecondition,
             "go on from number 3");
  EXPECT_EQ(Info("t").origin->config.learning_rate().peak(), 0.01f);
  Steps("t", 3, 6);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(6)));
}

TEST_F(TrainerStoreTest, UnloadedItIsDescribedAsItWasSaved) {
  const auto trainer = StoredTrainer::Create(
      options_.context, "t", directory_ + "/t", Start(kModel, 0)->origin,
      Start(kModel, 0)->parameters);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const Call call = RandomCall(*MakeModel(kModel), {3, 4}, 1);
  NumberedStep step;
  step.call.batch = &call.batch;
  step.call.targets = &call.targets;
  ASSERT_TRUE((*trainer)->Step(step).ok());
  EXPECT_EQ((*trainer)->Describe().accumulated_calls, 1);
  (*trainer)->Unload();
  EXPECT_EQ((*trainer)->Describe().accumulated_calls, 0);
}

// Else what was deleted could be there again after a loss of power.
TEST_F(TrainerStoreTest, AStartMakesWhatItSweptLast) {
  std::vector<std::string> operations;
  for (int64_t n = 1;; ++n) {
    fs::create_directories(directory_ + "/.aside-1-2");
    Faults faults;
    FaultFileCalls calls(faults);
    faults.CallAt(n, [] {});
    Reopen();
    if (!faults.Disarm()) break;
    operations.push_back(faults.where());
  }
  EXPECT_TRUE(std::any_of(operations.begin(), operations.end(),
                          [this](const std::string& operation) {
                            return absl::EndsWith(operation,
                                                  ": open " + directory_);
                          }));
}

TEST_F(TrainerStoreTest, WhatCannotBeReadHindersNoOtherAndStays) {
  Create("a", 1);
  Create("b", 1);
  Steps("a", 1, 2);
  store_.reset();
  for (const std::string& file : RestartFiles("a")) {
    fs::resize_file(file, fs::file_size(file) / 2);
  }
  Reopen();
  EXPECT_FALSE(warnings_.empty());
  ExpectCode(TryStep("a", 3).status(), StatusCode::kDataLoss, "restart");
  EXPECT_EQ(RestartFiles("a").size(), 2u);
  Step("b", 1);
  EXPECT_EQ(store_->List("", 10).size(), 1u);
  EXPECT_TRUE(store_->Delete("a").ok());
  EXPECT_FALSE(fs::exists(directory_ + "/a"));
}

// --- Saving, idleness and room ---

TEST_F(TrainerStoreTest, IsSavedFromTimeToTimeAtTheEndOfACall) {
  options_.context.save_interval = absl::Seconds(60);
  Reopen();
  Create("t");
  Step("t", 1);
  EXPECT_EQ(Info("t").saved_number, 0);
  now_ += absl::Seconds(60);
  Step("t", 2);
  EXPECT_EQ(Info("t").saved_number, 2);
  Step("t", 3);
  EXPECT_EQ(Info("t").saved_number, 2);
  now_ -= absl::Hours(24);  // a clock that went back does not stop it
  Step("t", 4);
  EXPECT_EQ(Info("t").saved_number, 4);
}

TEST_F(TrainerStoreTest, UpkeepSavesWhatWaitedForTheInterval) {
  Create("t");
  Step("t", 1);
  store_->DoUpkeep();
  EXPECT_EQ(Info("t").saved_number, 0);
  now_ += options_.context.save_interval;
  store_->DoUpkeep();
  EXPECT_EQ(Info("t").saved_number, 1);
  EXPECT_TRUE(Info("t").loaded);
}

TEST_F(TrainerStoreTest, IdleTrainersAreSavedAndLeaveMemoryUntilTheNextCall) {
  Create("t");
  Steps("t", 1, 3);
  now_ += options_.idle_timeout - absl::Seconds(1);
  store_->DoUpkeep();
  EXPECT_TRUE(Info("t").loaded);
  now_ += absl::Seconds(1);
  store_->DoUpkeep();
  EXPECT_FALSE(Info("t").loaded);
  EXPECT_EQ(Info("t").saved_number, 3);
  Step("t", 4);
  EXPECT_TRUE(Info("t").loaded);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(4)));
}

TEST_F(TrainerStoreTest, IdleTrainersLeaveSoonerForAJobThatWaitsForMemory) {
  DevicePool pool(*ParseDevices("cpu:1:memory=3MiB"));
  options_.context.devices = &pool;
  Reopen();
  Create("t");
  Ledger& ledger = pool.device(0).ledger();
  const LedgerSnapshot before = ledger.Snapshot();
  MemoryPlan all_but_a_byte;
  all_but_a_byte.activations =
      before.budget_bytes - before.owners.back().reserved_bytes - 1;
  ASSERT_EQ(before.owners.back().owner, "workspace");
  absl::Notification waits;
  std::thread job([&] {
    Ledger::Wait wait;
    wait.on_wait = [&](const std::string&) { waits.Notify(); };
    EXPECT_TRUE(
        Ledger::ReserveAll("jobs/x", {{&ledger, all_but_a_byte}}, wait).ok());
  });
  waits.WaitForNotification();
  now_ += options_.idle_timeout_when_wanted - absl::Seconds(1);
  store_->DoUpkeep();
  EXPECT_TRUE(Info("t").loaded);
  now_ += absl::Seconds(1);
  store_->DoUpkeep();
  EXPECT_FALSE(Info("t").loaded);
  job.join();
  store_.reset();
}

TEST_F(TrainerStoreTest, ReadersKeepATrainerInMemory) {
  Create("t");
  Weights("t");
  now_ += options_.idle_timeout / 2;
  EXPECT_NE(*store_->ReadyWeights("t"), nullptr);
  now_ += options_.idle_timeout / 2;
  store_->DoUpkeep();
  EXPECT_TRUE(Info("t").loaded);
}

TEST_F(TrainerStoreTest, TheOneIdleLongestMakesRoom) {
  options_.max_loaded = 2;
  Reopen();
  for (const char* id : {"a", "b"}) {
    now_ += absl::Seconds(1);
    Create(id);
    Step(id, 1);
  }
  now_ += absl::Seconds(1);
  Step("a", 2);
  Create("c");  // b goes
  EXPECT_TRUE(Info("a").loaded);
  EXPECT_FALSE(Info("b").loaded);
  EXPECT_EQ(Info("b").saved_number, 1);
  now_ += absl::Seconds(1);
  Step("b", 2);  // a goes
  EXPECT_FALSE(Info("a").loaded);
  Step("a", 3);
  Step("b", 3);
  const std::vector<float> expected = UndisturbedWeights(3);
  EXPECT_TRUE(SameBits(Weights("a"), expected));
  EXPECT_TRUE(SameBits(Weights("b"), expected));
}

// The order of last uses changes while it is looked at.
TEST_F(TrainerStoreTest, RoomIsMadeWhileOthersAreUsed) {
  constexpr int kTrainers = 24;
  std::atomic<int64_t> ticks = 0;
  options_.context.now = [&ticks] {
    return absl::UnixEpoch() + absl::Nanoseconds(++ticks);
  };
  options_.max_loaded = kTrainers - 1;
  Reopen();
  for (int i = 0; i < kTrainers; ++i) Create(absl::StrCat("t", i));
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      for (int i = r; !stop; i = (i * 7 + 5) % kTrainers) {
        EXPECT_TRUE(store_->ReadyWeights(absl::StrCat("t", i)).ok());
      }
    });
  }
  for (int call = 0; call < 30 * kTrainers; ++call) {
    const auto saved = store_->Save(absl::StrCat("t", call % kTrainers), "");
    EXPECT_TRUE(saved.ok()) << saved.status();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  const auto trainers = store_->List("", kTrainers);
  EXPECT_EQ(std::count_if(trainers.begin(), trainers.end(),
                          [](const auto& info) { return info.loaded; }),
            kTrainers - 1);
}

TEST_F(TrainerStoreTest, WithAllAtWorkThereIsNoRoom) {
  options_.max_loaded = 1;
  Reopen();
  Create("a");
  DuringACall("a", [&] {
    ExpectCode(
        store_->Create("b", "", [] { return Start(kModel, 0); }).status(),
        StatusCode::kResourceExhausted, "all are at work");
  });
  Create("b");
  EXPECT_FALSE(Info("a").loaded);
}

TEST_F(TrainerStoreTest, DuringACallOthersAreRefused) {
  Create("a");
  DuringACall("a", [&] {
    ExpectCode(TryStep("a", 1).status(), StatusCode::kAborted, "trainers/a");
    ExpectCode(store_->Save("a", "x").status(), StatusCode::kAborted);
    ExpectCode(store_->Delete("a"), StatusCode::kAborted);
    now_ += 2 * options_.idle_timeout;
    store_->DoUpkeep();
    EXPECT_TRUE(Info("a").loaded);
  });
  Step("a", 3);
}

TEST_F(TrainerStoreTest, CallsWaitForUpkeep) {
  auto start = Start(kModel, 0);
  const auto trainer = *StoredTrainer::Create(
      options_.context, "t", directory_ + "/t", std::move(start->origin),
      std::move(start->parameters));
  ASSERT_TRUE(trainer->TryBeginUpkeep());
  EXPECT_FALSE(trainer->TryBeginUpkeep());
  absl::Status begun;
  std::thread caller([&] { begun = trainer->BeginCall(); });
  trainer->EndTurn();
  caller.join();
  EXPECT_TRUE(begun.ok()) << begun;
  ExpectCode(trainer->BeginCall(), StatusCode::kAborted);
  EXPECT_FALSE(trainer->TryBeginUpkeep());
  trainer->EndTurn();
  trainer->Close();
  ExpectCode(trainer->BeginCall(), StatusCode::kNotFound);
}

// --- A disk that fails ---

TEST_F(TrainerStoreTest, ACallThatCouldNotBeSavedIsNotAcknowledgedNorRepeated) {
  Create("t", 1);
  Steps("t", 1, 2);
  Faults faults;
  FaultFileCalls calls(faults);
  faults.FailAt(1, ENOSPC, Faults::kFromThen);
  ExpectCode(TryStep("t", 3).status(), StatusCode::kResourceExhausted,
             "the call is done, but could not be saved");
  ExpectCode(TryStep("t", 3).status(), StatusCode::kResourceExhausted);
  faults.Disarm();
  EXPECT_EQ(Info("t").saved_number, 2);
  const StepResult third = Step("t", 3);
  EXPECT_EQ(Info("t").saved_number, 3);
  Reopen();
  ExpectSame(Step("t", 3), third);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(3)));
}

TEST_F(TrainerStoreTest, WhatCannotBeSavedStaysInMemory) {
  options_.max_loaded = 1;
  Reopen();
  Create("a");
  Step("a", 1);
  Faults faults;
  FaultFileCalls calls(faults);
  faults.FailAt(1, EIO, Faults::kFromThen);
  now_ += options_.idle_timeout;
  store_->DoUpkeep();
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_TRUE(Info("a").loaded);
  ExpectCode(store_->Create("b", "", [] { return Start(kModel, 0); }).status(),
             StatusCode::kResourceExhausted, "trainers/a cannot be saved");
  faults.Disarm();
  Create("b");
  EXPECT_EQ(Info("a").saved_number, 1);
}

// Creation, numbered calls, a named checkpoint, a deletion: with each operation
// of the disk failing once, what was acknowledged is there after a kill, and
// what can be made again leads to the same weights.
TEST_F(TrainerStoreTest, AnyOperationMayFail) {
  const std::vector<float> expected = UndisturbedWeights(3);
  Faults faults;
  FaultFileCalls calls(faults);
  bool failed = true;
  for (int64_t n = 1; failed; ++n) {
    fs::remove_all(directory_);
    Reopen();
    faults.FailAt(n, EIO);
    const bool created =
        store_->Create("t", "r", [] { return Start(kModel, 1); }).ok();
    int64_t acknowledged = 0;
    while (created && acknowledged < 3 && TryStep("t", acknowledged + 1).ok()) {
      ++acknowledged;
    }
    const bool named = created && store_->Save("t", "kept").ok();
    failed = faults.Disarm();
    SCOPED_TRACE(faults.where());

    Reopen();
    if (created) {
      EXPECT_GE(Info("t").last_number, acknowledged);
      const auto checkpoints = store_->ListCheckpoints("t");
      ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
      if (named) {
        EXPECT_EQ(checkpoints->size(), 1u);
      }
    } else {
      ASSERT_TRUE(
          store_->Create("t", "r", [] { return Start(kModel, 1); }).ok());
    }
    Steps("t", Info("t").last_number + 1, 3);
    EXPECT_TRUE(SameBits(Weights("t"), expected));
    if (::testing::Test::HasFailure()) break;
  }
}

// --- Weights for readers ---

TEST_F(TrainerStoreTest, WeightsAreThoseAfterTheLastCall) {
  Create("t");
  EXPECT_EQ(*store_->ReadyWeights("t"), nullptr);
  const auto first = store_->Weights("t", absl::InfiniteFuture());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->name, "trainers/t");
  EXPECT_EQ((*first)->vocabulary.size(), 5u);
  EXPECT_EQ(*store_->ReadyWeights("t"), *first);
  Step("t", 1);  // accumulates alone
  EXPECT_EQ(*store_->ReadyWeights("t"), *first);
  Step("t", 2);
  const ModelHandle second = *store_->ReadyWeights("t");
  ASSERT_NE(second, nullptr)
      << "fetched by the call, since they were asked for";
  EXPECT_NE(second, *first);
  EXPECT_EQ(dropped_, 1);
  EXPECT_TRUE(SameBits(**second->Parameters(), UndisturbedWeights(2)));
}

TEST_F(TrainerStoreTest, AReaderWaitsForACallThatChangesTheWeights) {
  Create("t");
  std::thread reader;
  std::vector<float> read;
  DuringACall("t", [&] {
    // The first one waits: the weights are about to change.
    EXPECT_EQ(*store_->ReadyWeights("t"), nullptr);
    ExpectCode(store_->Weights("t", absl::InfinitePast()).status(),
               StatusCode::kDeadlineExceeded, "trainers/t");
    reader = std::thread([&] { read = Weights("t"); });
  });
  reader.join();
  EXPECT_TRUE(SameBits(read, UndisturbedWeights(2)));
}

TEST_F(TrainerStoreTest, WeightsNobodyAsksForAreNotFetched) {
  Create("t");
  Weights("t");
  Steps("t", 1, 4);
  EXPECT_EQ(*store_->ReadyWeights("t"), nullptr);
}

TEST_F(TrainerStoreTest, WeightsAreTakenBackFromDisk) {
  Create("t", 1);
  Steps("t", 1, 2);
  Reopen();
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(2)));
}

// --- Named checkpoints ---

TEST_F(TrainerStoreTest, GoesOnFromANamedCheckpoint) {
  Create("t");
  Steps("t", 1, 3);
  const auto saved = store_->Save("t", "three");
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->summary.step, 1);
  EXPECT_EQ(saved->summary.record.calls.last_number(), 3);
  EXPECT_GT(saved->summary.size_bytes, 0);
  Steps("t", 4, 6);
  Reopen();
  const auto info = store_->GoOnFrom("t", "t", "three", false);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->step, 1);
  EXPECT_EQ(info->accumulated_calls, 1);
  Reopen();  // it is on disk
  EXPECT_EQ(Info("t").step, 1);
  // The fourth batch once more, whatever its number.
  Steps("t", 4, 4);
  EXPECT_TRUE(SameBits(Weights("t"), UndisturbedWeights(4)));
}

TEST_F(TrainerStoreTest, NumbersGoOnWhenACheckpointIsLoaded) {
  Create("t");
  Steps("t", 1, 2);
  ASSERT_TRUE(store_->Save("t", "two").ok());
  Steps("t", 3, 5);
  ASSERT_TRUE(store_->GoOnFrom("t", "t", "two", false).ok());
  EXPECT_EQ(Info("t").last_number, 5);
  Step("t", 6);
}

TEST_F(TrainerStoreTest, WeightsAloneStartTheRestAnew) {
  Create("a");
  Create("b");
  Steps("a", 1, 4);
  ASSERT_TRUE(store_->Save("a", "four").ok());
  const auto info = store_->GoOnFrom("b", "a", "four", true);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->step, 0);
  EXPECT_TRUE(SameBits(Weights("b"), Weights("a")));
}

TEST_F(TrainerStoreTest, OfAnotherModelNothingIsLoaded) {
  Create("a");
  Create("other", 0, kOtherModel);
  ASSERT_TRUE(store_->Save("a", "start").ok());
  ExpectCode(store_->GoOnFrom("other", "a", "start", true).status(),
             StatusCode::kInvalidArgument, "model configs must be equal");
  ExpectCode(store_->GoOnFrom("a", "a", "none", true).status(),
             StatusCode::kNotFound, "none");
  ExpectCode(store_->GoOnFrom("a", "nobody", "start", true).status(),
             StatusCode::kNotFound, "nobody");
  ExpectCode(store_->Save("a", "../x").status(), StatusCode::kInvalidArgument);
}

TEST_F(TrainerStoreTest, NamedCheckpointsAreListedReplacedAndBounded) {
  Create("t");
  for (size_t i = 0; i < kMaxNamedCheckpoints; ++i) {
    ASSERT_TRUE(store_->Save("t", absl::StrCat("c", 100 + i)).ok());
  }
  ExpectCode(store_->Save("t", "more").status(), StatusCode::kResourceExhausted,
             "100");
  Step("t", 1);
  ASSERT_TRUE(store_->Save("t", "c107").ok());
  const auto list = store_->ListCheckpoints("t");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), kMaxNamedCheckpoints);
  for (size_t i = 0; i < list->size(); ++i) {
    EXPECT_EQ((*list)[i].id, absl::StrCat("c", 100 + i));
    EXPECT_EQ((*list)[i].summary.record.calls.last_number(), i == 7 ? 1 : 0);
  }
}

}  // namespace
}  // namespace recurve
