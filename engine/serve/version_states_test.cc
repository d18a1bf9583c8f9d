#include "engine/serve/version_states.h"

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/batcher.h"
#include "engine/serve/predictor.h"
#include "engine/serve/registry.h"
#include "engine/serve/version_files.h"
#include "engine/serve/version_loader.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"pb(
  input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
  blocks { sru { hidden_size: 32 num_layers: 2 } }
  output { linear { size: 5 } }
  loss { kind: CROSS_ENTROPY }
)pb";

VersionContents Contents(uint64_t seed) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kConfig, &config));
  VersionContents contents;
  contents.model = *Model::Create(config);
  contents.parameters = InitializeParameters(*contents.model, seed);
  contents.source = "created";
  return contents;
}

// A registry of one model, `lm`, of two versions.
class VersionsTest : public testing::Test {
 protected:
  VersionsTest() {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
    registry_ = *Registry::Open(dir_);
    Publish();
    Publish();
  }
  ModelHandle Publish() {
    const auto version = registry_->Publish("lm", Contents(++published_));
    EXPECT_TRUE(version.ok()) << version.status();
    return *version;
  }

  static constexpr char kFirst[] = "models/lm/versions/1";
  const std::string dir_ = absl::StrCat(
      testing::TempDir(), "/",
      testing::UnitTest::GetInstance()->current_test_info()->name());
  std::unique_ptr<Registry> registry_;
  uint64_t published_ = 0;
};

// --- The states alone ---

class VersionStatesTest : public VersionsTest {
 protected:
  VersionStatesTest() {
    VersionStates::Hooks hooks;
    hooks.load = [this](const ModelHandle& version) {
      calls_.push_back("load " + Name(*version));
      return load_;
    };
    hooks.free = [this](const ModelVersion& version) {
      calls_.push_back("free " + Name(version));
    };
    hooks.check_fits = [this](const ModelVersion&) { return fits_; };
    hooks.later = [this](std::function<void()> work) {
      later_.push_back(std::move(work));
    };
    states_ = std::make_unique<VersionStates>(*registry_, std::move(hooks));
  }
  // With the precision, unless that is float32.
  static std::string Name(const ModelVersion& version) {
    const int precision = static_cast<int>(version.precision());
    return precision == 0 ? version.name
                          : absl::StrCat(version.name, " at ", precision);
  }
  VersionState State() { return states_->StateOf(**registry_->Get(kFirst)); }
  absl::StatusCode EnterCode() {
    return states_->Enter(kFirst).status().code();
  }
  // Like the thread that does what is for later.
  void RunLater() {
    while (!later_.empty()) {
      const auto work = std::move(later_.front());
      later_.pop_front();
      work();
    }
  }

  absl::Status load_, fits_;
  std::vector<std::string> calls_;
  std::deque<std::function<void()>> later_;
  std::unique_ptr<VersionStates> states_;
};

using Calls = std::vector<std::string>;

TEST_F(VersionStatesTest, VersionsAreOnDemandUntilTheyAreLoaded) {
  EXPECT_EQ(State(), VersionState::kOnDemand);
  const auto handle = states_->Enter(kFirst);
  ASSERT_TRUE(handle.ok());
  EXPECT_EQ(handle->get(), registry_->Get(kFirst)->get());
  ASSERT_TRUE(states_->Load(kFirst).ok());
  EXPECT_EQ(State(), VersionState::kLoaded);
  EXPECT_EQ(EnterCode(), absl::StatusCode::kOk);
  EXPECT_EQ(calls_, Calls{"load models/lm/versions/1"});
}

TEST_F(VersionStatesTest, AnUnloadedVersionIsFreedAndRefusesWhoComes) {
  ASSERT_TRUE(states_->Load(kFirst).ok());
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  EXPECT_EQ(State(), VersionState::kUnloaded);
  EXPECT_EQ(EnterCode(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(calls_.back(), "free models/lm/versions/1");
  ASSERT_TRUE(states_->Unload(kFirst).ok());  // once is enough
  EXPECT_EQ(calls_.size(), 2u);
  // The others, and what the model's own name means, go on.
  EXPECT_TRUE(states_->Enter("models/lm").ok());
  ASSERT_TRUE(states_->Load(kFirst).ok());
  EXPECT_EQ(EnterCode(), absl::StatusCode::kOk);
}

TEST_F(VersionStatesTest, ItIsFreedOnlyWhenTheLastUseHasEnded) {
  auto first = states_->Enter(kFirst);
  auto second = states_->Enter(kFirst);
  ModelHandle copy = *second;
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  EXPECT_EQ(State(), VersionState::kDraining);
  EXPECT_EQ(EnterCode(), absl::StatusCode::kFailedPrecondition);
  first = second = absl::CancelledError();
  RunLater();
  EXPECT_EQ(State(), VersionState::kDraining);
  EXPECT_TRUE(calls_.empty());
  copy = nullptr;
  EXPECT_TRUE(calls_.empty());  // not under locks of whoever let go
  RunLater();
  EXPECT_EQ(State(), VersionState::kUnloaded);
  EXPECT_EQ(calls_, Calls{"free models/lm/versions/1"});
}

TEST_F(VersionStatesTest, LoadTakesBackADrainingVersion) {
  auto use = states_->Enter(kFirst);
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  use = absl::CancelledError();  // now what is for later frees it
  ASSERT_TRUE(states_->Load(kFirst).ok());
  RunLater();
  EXPECT_EQ(State(), VersionState::kLoaded);
  EXPECT_EQ(calls_, Calls{"load models/lm/versions/1"});
}

TEST_F(VersionStatesTest, AVersionThatCannotBeLoadedStaysWhatItWas) {
  load_ = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(states_->Load(kFirst).status(), load_);
  EXPECT_EQ(State(), VersionState::kOnDemand);
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  EXPECT_FALSE(states_->Load(kFirst).ok());
  EXPECT_EQ(State(), VersionState::kUnloaded);
}

TEST_F(VersionStatesTest, AtAnotherPrecisionItIsReplacedAndUsesGoOn) {
  const ModelHandle stored = *registry_->Get(kFirst);
  auto before = states_->Enter(kFirst);
  EXPECT_EQ(states_->PrecisionOf(*stored), Precision::kFloat32);
  ASSERT_TRUE(states_->Load(kFirst, Precision::kInt8).ok());
  EXPECT_EQ(calls_, (Calls{"load models/lm/versions/1 at 2",
                           "free models/lm/versions/1"}));
  EXPECT_EQ(states_->PrecisionOf(*stored), Precision::kInt8);
  auto after = states_->Enter(kFirst);
  EXPECT_EQ((*before)->precision(), Precision::kFloat32);
  EXPECT_EQ((*after)->precision(), Precision::kInt8);
  EXPECT_TRUE((*after)->Is(*stored));
  // Without a precision: as it is.
  ASSERT_TRUE(states_->Load(kFirst).ok());
  EXPECT_EQ(states_->Enter(kFirst)->get(), after->get());
  // Uses at either keep it from being freed, which is then done at both.
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  after = absl::CancelledError();
  RunLater();
  EXPECT_EQ(State(), VersionState::kDraining);
  calls_.clear();
  before = absl::CancelledError();
  RunLater();
  EXPECT_EQ(State(), VersionState::kUnloaded);
  EXPECT_EQ(calls_, (Calls{"free models/lm/versions/1",
                           "free models/lm/versions/1 at 2"}));
}

TEST_F(VersionStatesTest, WithoutRoomForAnotherPrecisionNothingChanges) {
  load_ = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(states_->Load(kFirst, Precision::kBfloat16).status(), load_);
  EXPECT_EQ((*states_->Enter(kFirst))->precision(), Precision::kFloat32);
  EXPECT_EQ(State(), VersionState::kOnDemand);
}

TEST_F(VersionStatesTest, OnDemandItIsServedAtTheDefault) {
  VersionStates::Hooks hooks;
  hooks.load = [](const ModelHandle&) { return absl::OkStatus(); };
  hooks.free = [](const ModelVersion&) {};
  states_ = std::make_unique<VersionStates>(*registry_, std::move(hooks),
                                            Precision::kBfloat16);
  const ModelHandle first = *states_->Enter(kFirst);
  EXPECT_EQ(first->precision(), Precision::kBfloat16);
  // One object, or devices would load it anew each time.
  EXPECT_EQ(states_->Enter(kFirst)->get(), first.get());
  EXPECT_EQ(*first->Parameters(), *(*registry_->Get(kFirst))->Parameters());
}

TEST_F(VersionStatesTest, ADeletedVersionIsForgotten) {
  registry_->OnDelete(
      [this](const ModelVersion& version) { states_->Forget(version); });
  auto use = states_->Enter(kFirst);
  ASSERT_TRUE(states_->Load(kFirst).ok());
  const ModelHandle version = *registry_->Get(kFirst);
  ASSERT_TRUE(registry_->DeleteVersion(kFirst).ok());
  EXPECT_EQ(states_->StateOf(*version), VersionState::kOnDemand);
  EXPECT_EQ(EnterCode(), absl::StatusCode::kNotFound);
  use = absl::CancelledError();
  EXPECT_TRUE(later_.empty());
}

TEST_F(VersionStatesTest, UsesMayEndAfterTheStatesAreGone) {
  auto use = states_->Enter(kFirst);
  auto other = states_->Enter("models/lm");
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  use = absl::CancelledError();
  states_ = nullptr;
  other = absl::CancelledError();
  RunLater();
  EXPECT_TRUE(calls_.empty());
}

TEST_F(VersionStatesTest, ReadyIsWhatARequestWouldBeAnswered) {
  const auto ready = [&] { return states_->CheckReady(kFirst).code(); };
  EXPECT_EQ(ready(), absl::StatusCode::kOk);
  EXPECT_EQ(states_->CheckReady("models/lm/versions/9").code(),
            absl::StatusCode::kNotFound);
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  EXPECT_EQ(ready(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(states_->Load(kFirst).ok());
  fits_ = absl::ResourceExhaustedError("too large");
  EXPECT_EQ(ready(), absl::StatusCode::kResourceExhausted);
  fits_ = absl::OkStatus();
  fs::remove(dir_ + "/models/lm/versions/1/" + kWeightsFile);
  EXPECT_EQ(ready(), absl::StatusCode::kDataLoss);
}

TEST_F(VersionStatesTest, AVersionOfDamagedWeightsIsNotReady) {
  const std::string path = dir_ + "/models/lm/versions/1/" + kWeightsFile;
  fs::resize_file(path, fs::file_size(path) - 1);
  const absl::Status status = states_->CheckReady(kFirst);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(path), absl::string_view::npos);
  EXPECT_TRUE(states_->CheckReady("models/lm").ok());
}

// --- With devices ---

constexpr int64_t kRows = 8;  // of a pass

int64_t BytesOfOne() {
  return InferencePlan(*Contents(1).model, {kRows, kRows}).total();
}

// A device of one thread with room for this much.
std::string Room(int64_t bytes) {
  return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
}

class LoadedVersionsTest : public VersionsTest {
 protected:
  void Start(const std::string& specs) {
    states_ = nullptr;
    predictor_ = nullptr;
    batcher_ = nullptr;
    runner_ = nullptr;
    devices_ = std::make_unique<DevicePool>(*ParseDevices(specs));
    const RunLimits limits = {.max_batch_rows = kRows};
    runner_ = std::make_unique<BatchRunner>(*devices_, limits);
    Batcher::Options batching;
    batching.max_batch_rows = kRows;
    batcher_ = std::make_unique<Batcher>(*runner_, batching);
    predictor_ = std::make_unique<Predictor>(*batcher_, Predictor::Options());
    loader_ = std::make_unique<VersionLoader>(runner_->admission(), limits);
    VersionStates::Hooks hooks;
    hooks.load = [this](const ModelHandle& v) { return loader_->Load(v); };
    hooks.free = [this](const ModelVersion& v) { runner_->Drop(v); };
    hooks.check_fits = [this](const ModelVersion& v) {
      return loader_->CheckFits(v);
    };
    hooks.later = [this](std::function<void()> work) {
      absl::MutexLock lock(&mutex_);
      later_.push_back(std::move(work));
    };
    states_ = std::make_unique<VersionStates>(*registry_, std::move(hooks));
  }
  LedgerSnapshot Memory(int rank = 0) {
    absl::Notification settled;  // all that was given to the device before
    devices_->device(rank).Enqueue(TaskClass::kServing,
                                   [&](Backend&) { settled.Notify(); });
    settled.WaitForNotification();
    return devices_->device(rank).ledger().Snapshot();
  }
  int64_t Reserved(int rank = 0) {
    return Memory(rank).reserved_bytes - WorkspacePlan(1).total();
  }
  absl::Status Predict(const std::string& name) {
    auto version = states_->Enter(name);
    if (!version.ok()) return version.status();
    PredictRequest request;
    request.version = *std::move(version);
    request.batch = {{0, 3}, {0, 1, 2}, {}};
    request.selection.logits = true;
    absl::Status result;
    absl::Notification finished;
    predictor_->Predict(std::move(request), [&](auto prediction) {
      result = prediction.status();
      finished.Notify();
    });
    finished.WaitForNotification();
    return result;
  }
  void RunLater() {
    std::vector<std::function<void()>> work;
    {
      absl::MutexLock lock(&mutex_);
      work.swap(later_);
    }
    for (const auto& piece : work) piece();
  }
  // A device may hold the last request's handle for a moment after its answer.
  void UnloadAndWait(const std::string& name) {
    const auto version = states_->Unload(name);
    ASSERT_TRUE(version.ok()) << version.status();
    while (states_->StateOf(**version) != VersionState::kUnloaded) {
      RunLater();
      std::this_thread::yield();
    }
  }

  std::unique_ptr<DevicePool> devices_;
  std::unique_ptr<BatchRunner> runner_;
  std::unique_ptr<Batcher> batcher_;
  std::unique_ptr<Predictor> predictor_;
  std::unique_ptr<VersionLoader> loader_;
  absl::Mutex mutex_;
  std::vector<std::function<void()>> later_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<VersionStates> states_;
};

std::string Version(int64_t number) {
  return absl::StrCat("models/lm/versions/", number);
}

TEST_F(LoadedVersionsTest, ALoadedVersionHoldsItsMemoryOnEveryDevice) {
  Start("cpu:1,cpu:1");
  ASSERT_TRUE(states_->Load(kFirst).ok());
  EXPECT_EQ(Reserved(0), BytesOfOne());
  EXPECT_EQ(Reserved(1), BytesOfOne());
  ASSERT_TRUE(states_->Load(kFirst).ok());  // again: as it is
  EXPECT_EQ(Reserved(0), BytesOfOne());
  ASSERT_TRUE(states_->Unload(kFirst).ok());
  EXPECT_EQ(Reserved(0), 0);
  EXPECT_EQ(Reserved(1), 0);
}

TEST_F(LoadedVersionsTest, DevicesWithoutRoomAreLeftOut) {
  Start(absl::StrCat(Room(BytesOfOne()), ",", Room(2 * BytesOfOne())));
  ASSERT_TRUE(states_->Load(Version(1)).ok());
  ASSERT_TRUE(states_->Load(Version(2)).ok());
  EXPECT_EQ(Reserved(0), BytesOfOne());
  EXPECT_EQ(Reserved(1), 2 * BytesOfOne());
}

TEST_F(LoadedVersionsTest, IdleVersionsMakeRoomAndLoadedOnesDoNot) {
  Start(Room(BytesOfOne()));
  ASSERT_TRUE(Predict(Version(1)).ok());  // and is idle now
  ASSERT_TRUE(states_->Load(Version(2)).ok());
  EXPECT_EQ(Memory().owners.size(), 2u);  // with the workspace

  const auto refused = states_->Load(Version(1));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.status().message().find(Version(2)),
            absl::string_view::npos)
      << refused.status();
  EXPECT_EQ(states_->StateOf(**registry_->Get(Version(1))),
            VersionState::kOnDemand);
  EXPECT_EQ(Predict(Version(1)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(Predict(Version(2)).ok());

  UnloadAndWait(Version(2));
  EXPECT_TRUE(Predict(Version(1)).ok());
}

TEST_F(LoadedVersionsTest, DamagedWeightsAreNotLoadedAndHoldNothing) {
  Start("cpu:1,cpu:1");
  fs::remove(dir_ + "/models/lm/versions/1/" + kWeightsFile);
  EXPECT_EQ(states_->Load(kFirst).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Reserved(0), 0);
  EXPECT_EQ(Reserved(1), 0);
}

TEST_F(LoadedVersionsTest, WhatNoDeviceCouldEverHoldIsNotReady) {
  Start(Room(BytesOfOne()));
  EXPECT_TRUE(states_->CheckReady(kFirst).ok());
  Start(Room(1000));
  EXPECT_EQ(states_->CheckReady(kFirst).code(),
            absl::StatusCode::kResourceExhausted);
}

// Version after version is published, loaded beside the one before, named
// `stable`, and the one before unloaded, while requests go on. There is room
// for two: whoever keeps a third waiting is refused, and nobody else is.
TEST_F(LoadedVersionsTest, ReloadsUnderLoadStayWithinTheBudget) {
  constexpr char kStable[] = "models/lm/aliases/stable";
  Start(Room(2 * BytesOfOne()));
  ASSERT_TRUE(states_->Load(Version(2)).ok());
  ASSERT_TRUE(registry_->SetAlias(kStable, Version(2)).ok());

  std::atomic<bool> stop = false;
  std::atomic<int64_t> answered = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      while (!stop) {
        const absl::Status status = Predict(kStable);
        // Between naming the version and asking for it, it may be unloaded.
        EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status))
            << status;
        if (status.ok()) ++answered;
      }
    });
  }
  const auto wait_for_answers = [&] {
    const int64_t before = answered;
    while (answered < before + 3) std::this_thread::yield();
  };
  for (int i = 0; i < 8; ++i) {
    const std::string next = Publish()->name;
    const std::string old = Version((*registry_->Get(next))->number - 1);
    EXPECT_TRUE(states_->Load(next).ok());
    EXPECT_EQ(states_->Load(Version(1)).status().code(),
              absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(registry_->SetAlias(kStable, next).ok());
    wait_for_answers();
    UnloadAndWait(old);
    wait_for_answers();
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(Reserved(), BytesOfOne());
  EXPECT_LE(Memory().reserved_high_water, Memory().budget_bytes);
  UnloadAndWait(kStable);
  EXPECT_EQ(Reserved(), 0);
}

}  // namespace
}  // namespace recurve
