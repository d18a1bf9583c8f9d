// Training jobs, predictions and steps of random shapes together, on devices
// that cannot hold them all: no device ever goes beyond its budget, every
// request is answered or refused with the numbers, and in the end every byte is
// given back.
//
//   bazel run //tests/faults:soak_test -- --seconds=180
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/draw.h"
#include "tests/faults/server_process.h"
#include "tests/faults/workload.h"

ABSL_FLAG(int, seconds, 8, "of traffic, for each case");
ABSL_FLAG(uint64_t, seed, 1, "of shapes and order");

namespace recurve::faults {
namespace {

constexpr int kModels = 8;
constexpr int kVocabulary = 16;
// A twentieth: what the peaks of equal devices may differ by.
constexpr double kSpread = 0.05;
constexpr int kSecondsToPeak = 60;
constexpr int kMoreTimes = 4;  // as long again, on a slow machine

// Bidirectional models cannot be cut in time: what is too long is refused.
v1::ModelConfig Config(int64_t hidden_size, bool bidirectional) {
  v1::ModelConfig config = SmallConfig();
  v1::SruConfig* sru = config.mutable_blocks(0)->mutable_sru();
  sru->set_hidden_size(static_cast<int>(hidden_size));
  sru->set_bidirectional(bidirectional);
  return config;
}

v1::SequenceBatch Batch(Draw& draw, int64_t max_sequences, int64_t max_length) {
  v1::SequenceBatch batch;
  batch.add_cu_seqlens(0);
  for (int64_t n = draw.Between(1, max_sequences); n > 0; --n) {
    for (int64_t t = draw.Between(1, max_length); t > 0; --t) {
      batch.add_tokens(static_cast<int>(draw.Between(0, kVocabulary - 1)));
    }
    batch.add_cu_seqlens(batch.tokens_size());
  }
  return batch;
}

v1::Targets TargetsOf(const v1::SequenceBatch& batch) {
  v1::Targets targets;
  *targets.mutable_classes() = batch.tokens();
  return targets;
}

// What came of the requests of one kind. Thread-safe.
class Outcomes {
 public:
  explicit Outcomes(const char* kind) : kind_(kind) {}

  // Anything but success and a refusal with numbers fails the test.
  bool Add(const absl::Status& status) {
    if (status.ok()) {
      ++succeeded_;
      return true;
    }
    ++refused_;
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << kind_ << ": " << status;
    EXPECT_TRUE(std::any_of(status.message().begin(), status.message().end(),
                            [](char c) { return std::isdigit(c); }))
        << kind_ << ": " << status;
    return false;
  }

  void Print() const {
    std::printf("%s: %d succeeded, %d refused\n", kind_, succeeded_.load(),
                refused_.load());
  }
  int succeeded() const { return succeeded_; }

 private:
  const char* const kind_;
  std::atomic<int> succeeded_{0}, refused_{0};
};

class SoakTest : public testing::Test {
 protected:
  void Start(const std::string& devices) {
    server_ = ServerProcess::Start(folder_.path() + "/data", devices,
                                   {"--max_running_jobs=2"});
    auto client = server_->Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    at_first_ = Devices();
    UploadLines();
  }

  void UploadLines() {
    v1::UploadDatasetRequest::Header header;
    header.set_dataset_id("lines");
    const auto dataset = client_->UploadDataset(header, JsonLines(200));
    ASSERT_TRUE(dataset.ok()) << dataset.status();
  }

  // Models of which a device holds a few at a time.
  void CreateModels(int64_t hidden_size) {
    for (int i = 0; i < kModels; ++i) {
      v1::CreateModelRequest request;
      request.set_model_id(absl::StrCat("model-", i));
      *request.mutable_config() = Config(hidden_size + 16 * i, i % 2 == 1);
      const auto model = client_->CreateModel(request);
      ASSERT_TRUE(model.ok()) << model.status();
    }
  }

  // All kinds of traffic at once.
  void Soak() {
    const uint64_t seed = absl::GetFlag(FLAGS_seed);
    const absl::Time end =
        absl::Now() + absl::Seconds(absl::GetFlag(FLAGS_seconds));
    std::vector<std::thread> threads;
    // A slow machine may take longer until some of each kind have succeeded.
    const auto goes_on = [&] {
      const absl::Time now = absl::Now();
      return now < end || (now < end + kPatience && !SomeOfEachSucceeded());
    };
    const auto run = [&](uint64_t stream, auto&& next) {
      threads.emplace_back([&, stream, next] {
        Draw draw(seed * 1000 + stream);
        while (goes_on() && !HasFailure()) next(draw);
      });
    };
    for (uint64_t i = 0; i < 3; ++i) {
      run(i, [this](Draw& draw) { Predict(draw); });
    }
    for (uint64_t i = 3; i < 5; ++i) {
      run(i, [this, i](Draw& draw) { StepAWhile(draw, i); });
    }
    for (uint64_t i = 5; i < 7; ++i) {
      run(i, [this](Draw& draw) { TrainAWhile(draw); });
    }
    run(7, [this](Draw&) { ExpectWithinBudgets(); });
    for (std::thread& thread : threads) thread.join();
    for (const Outcomes* outcomes : {&predictions_, &steps_, &jobs_}) {
      outcomes->Print();
      EXPECT_GT(outcomes->succeeded(), 0);
    }
    ExpectEachModelAnswers();
  }

  bool SomeOfEachSucceeded() const {
    return predictions_.succeeded() > 0 && steps_.succeeded() > 0 &&
           jobs_.succeeded() > 0;
  }

  // A batch that now and then is larger than a device can hold.
  void Predict(Draw& draw) {
    v1::PredictRequest request;
    request.set_model(
        absl::StrCat("models/model-", draw.Between(0, kModels - 1)));
    *request.mutable_batch() = Batch(draw, 20, draw.Between(0, 9) ? 60 : 900);
    predictions_.Add(client_->Predict(request).status());
  }

  // There is room for each, though not for all: idle ones make way.
  void ExpectEachModelAnswers() {
    for (int i = 0; i < 2 * kModels; ++i) {
      v1::PredictRequest request;
      request.set_model(absl::StrCat("models/model-", i % kModels));
      request.mutable_batch()->add_cu_seqlens(0);
      request.mutable_batch()->add_cu_seqlens(1);
      request.mutable_batch()->add_tokens(0);
      const absl::Status status = client_->Predict(request).status();
      EXPECT_TRUE(status.ok()) << status;
    }
  }

  // A trainer's life of a few steps.
  void StepAWhile(Draw& draw, uint64_t stream) {
    v1::CreateTrainerRequest create;
    create.set_trainer_id(absl::StrCat("trainer-", stream));
    *create.mutable_spec() = Spec(draw);
    const auto trainer = client_->CreateTrainer(create);
    if (!steps_.Add(trainer.status())) return;
    for (int64_t i = draw.Between(1, 20); i > 0; --i) {
      v1::StepRequest request;
      request.set_name(trainer->name());
      *request.mutable_batch() = Batch(draw, 30, draw.Between(0, 9) ? 60 : 600);
      *request.mutable_targets() = TargetsOf(request.batch());
      steps_.Add(client_->Step(request).status());
    }
    const absl::Status deleted = client_->DeleteTrainer(trainer->name());
    EXPECT_TRUE(deleted.ok()) << deleted;
  }

  v1::TrainSpec Spec(Draw& draw) {
    v1::TrainSpec spec = SequenceSpec("trained", "lines", draw.Between(2, 20));
    *spec.mutable_config() = Config(draw.Between(8, 200), draw.Between(0, 1));
    spec.mutable_loader()->set_batch_size(
        static_cast<int>(draw.Between(1, 100)));
    spec.mutable_trainer()->set_micro_batch_rows(draw.Between(16, 2000));
    return spec;
  }

  void TrainAWhile(Draw& draw) {
    v1::TrainRequest request;
    *request.mutable_spec() = Spec(draw);
    request.mutable_spec()->set_publish(v1::TrainSpec::NONE);
    const auto job = client_->Train(request);
    if (!job.ok()) {
      jobs_.Add(job.status());
      return;
    }
    v1::Job last;
    const absl::Status watched =
        client_->WatchJob(job->name(), 0, [&](const v1::JobEvent& event) {
          if (event.has_state()) last = event.state();
          return absl::OkStatus();
        });
    EXPECT_TRUE(watched.ok()) << watched;
    jobs_.Add(EndOf(last));
  }

  // A job whose memory is known to be too little once its data are read fails
  // with what submission would have said.
  static absl::Status EndOf(const v1::Job& job) {
    if (job.state() == v1::Job::SUCCEEDED) return absl::OkStatus();
    if (absl::StartsWith(job.cause(), "RESOURCE_EXHAUSTED: ")) {
      return absl::ResourceExhaustedError(job.cause());
    }
    return absl::InternalError(job.ShortDebugString());
  }

  std::vector<v1::Device> Devices() {
    const auto list = client_->ListDevices();
    EXPECT_TRUE(list.ok()) << list.status();
    if (!list.ok()) return {};
    return {list->devices().begin(), list->devices().end()};
  }

  // By what part of the higher the peaks of use of two devices differ.
  double SpreadOfPeaks() {
    const std::vector<v1::Device> devices = Devices();
    if (devices.size() != 2) return 1;
    const auto [low, high] = std::minmax({devices[0].used_high_water_bytes(),
                                          devices[1].used_high_water_bytes()});
    return static_cast<double>(high - low) / static_cast<double>(high);
  }

  void ExpectWithinBudgets() {
    for (const v1::Device& device : Devices()) {
      EXPECT_GT(device.budget_bytes(), 0);
      EXPECT_LE(device.reserved_bytes(), device.budget_bytes());
      EXPECT_LE(device.memory_bytes(), device.reserved_bytes())
          << device.ShortDebugString();
      EXPECT_LE(device.reserved_high_water_bytes(), device.budget_bytes());
      EXPECT_LE(device.used_high_water_bytes(), device.budget_bytes());
      EXPECT_LE(PlannedForTraining(device), device.training_budget_bytes())
          << device.ShortDebugString();
    }
    absl::SleepFor(absl::Milliseconds(5));
  }

  // By jobs, trainers and the device's own workspace.
  static int64_t PlannedForTraining(const v1::Device& device) {
    int64_t bytes = 0;
    for (const v1::MemoryOwner& owner : device.owners()) {
      if (!absl::StartsWith(owner.owner(), "models/")) {
        bytes += owner.planned_bytes();
      }
    }
    return bytes;
  }

  // A job without an end that takes all the memory that training may have, to a
  // row: the refusal of a larger one says how many rows that is.
  v1::Job TrainWithAllMemory() {
    v1::TrainRequest request;
    v1::TrainSpec& spec = *request.mutable_spec();
    spec = SequenceSpec("trained", "lines", 1'000'000);
    *spec.mutable_config() = Config(300, /*bidirectional=*/false);
    spec.mutable_loader()->set_batch_size(200);
    spec.mutable_trainer()->set_micro_batch_rows(1 << 20);
    const absl::Status refusal = client_->Train(request).status();
    EXPECT_TRUE(absl::IsResourceExhausted(refusal)) << refusal;
    const std::string message(refusal.message());
    const std::string advice = "micro_batch_rows that fits is ";
    const size_t at = message.find(advice);
    EXPECT_NE(at, std::string::npos) << message;
    if (at == std::string::npos) return {};
    spec.mutable_trainer()->set_micro_batch_rows(
        std::stoll(message.substr(at + advice.size())));
    const auto job = client_->Train(request);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : v1::Job();
  }

  // Nothing is left once there is nothing to hold.
  void ExpectAllGivenBack() {
    for (int i = 0; i < kModels; ++i) {
      const absl::Status deleted =
          client_->DeleteModel(absl::StrCat("models/model-", i));
      EXPECT_TRUE(deleted.ok()) << deleted;
    }
    AwaitIdle();
    for (const v1::Device& device : Devices()) {
      EXPECT_EQ(device.reserved_bytes(), ReservedAtFirst(device))
          << device.ShortDebugString();
      EXPECT_EQ(device.memory_bytes(), 0) << device.ShortDebugString();
      EXPECT_EQ(device.waiting_size(), 0) << device.ShortDebugString();
      std::printf("%s %s: budget %jd, most reserved %jd, most used %jd bytes\n",
                  device.name().c_str(), device.spec().c_str(),
                  static_cast<intmax_t>(device.budget_bytes()),
                  static_cast<intmax_t>(device.reserved_high_water_bytes()),
                  static_cast<intmax_t>(device.used_high_water_bytes()));
    }
  }

  // By the device itself, before any request: its workspace.
  int64_t ReservedAtFirst(const v1::Device& device) const {
    for (const v1::Device& first : at_first_) {
      if (first.name() == device.name()) return first.reserved_bytes();
    }
    return 0;
  }

  // What the last request leaves a device to do.
  void AwaitIdle() {
    const absl::Time deadline = absl::Now() + kPatience;
    const auto reserves = [this](const v1::Device& device) {
      return device.reserved_bytes() > ReservedAtFirst(device);
    };
    std::vector<v1::Device> devices = Devices();
    while (std::any_of(devices.begin(), devices.end(), reserves) &&
           absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
      devices = Devices();
    }
  }

  Outcomes predictions_{"predictions"}, steps_{"steps"}, jobs_{"jobs"};
  Folder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  std::vector<v1::Device> at_first_;
};

TEST_F(SoakTest, UnequalDevicesKeepTheirBudgets) {
  Start("cpu:1:memory=96MiB,cpu:1:memory=48MiB");
  CreateModels(250);
  if (HasFatalFailure()) return;
  Soak();
  ExpectAllGivenBack();
}

// One device, so that there is nowhere else to go, and models that are not
// loaded, since what is kept for them does not hold two.
TEST_F(SoakTest, PredictionsGoOnBesideAJobThatTakesAllItMay) {
  constexpr int kRounds = 3;
  Start("cpu:1:memory=48MiB");
  CreateModels(150);
  if (HasFatalFailure()) return;
  const v1::Job job = TrainWithAllMemory();
  const auto held = [&] { return PlannedForTraining(Devices().at(0)); };
  const int64_t may_have = Devices().at(0).training_budget_bytes();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (held() < may_have * 99 / 100 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  for (int round = 0; round < kRounds; ++round) ExpectEachModelAnswers();
  EXPECT_GE(held(), may_have * 99 / 100);
  ExpectWithinBudgets();
  EXPECT_TRUE(client_->CancelJob(job.name()).ok());
  ExpectAllGivenBack();
}

// Both have more to hold than they can: where one is never full, its peak is
// that of the largest request that chance has sent it.
TEST_F(SoakTest, EqualDevicesUseTheSame) {
  Start("cpu:1:memory=32MiB,cpu:1:memory=32MiB");
  CreateModels(250);
  if (HasFatalFailure()) return;
  Soak();
  // Peaks come near to what a device can use the longer it is used.
  if (absl::GetFlag(FLAGS_seconds) >= kSecondsToPeak) {
    for (int i = 0; i < kMoreTimes && SpreadOfPeaks() >= kSpread; ++i) Soak();
    EXPECT_LT(SpreadOfPeaks(), kSpread);
  }
  std::printf("peaks of use differ by %.2f%%\n", 100 * SpreadOfPeaks());
  ExpectAllGivenBack();
}

}  // namespace
}  // namespace recurve::faults
