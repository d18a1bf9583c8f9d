// Steps that are sent more than once, by one client or by two that drive the
// same trainer: each number is done once, and the weights are those of a client
// that sent each once.
//
//   bazel run //tests/faults:steps_test
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"
#include "tests/faults/workload.h"

namespace recurve::faults {
namespace {

constexpr int64_t kSteps = 20;

class StepsTest : public testing::Test {
 protected:
  StepsTest() {
    server_ = ServerProcess::Start(folder_.path() + "/data", "cpu:1,cpu:1");
    auto client = server_->Connect();
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) return;
    client_ = *std::move(client);
    v1::UploadDatasetRequest::Header header;
    header.set_dataset_id("text");
    EXPECT_TRUE(client_->UploadDataset(header, Text(4000)).ok());
    spec_.clear_validation();
    ReadBatches();
  }

  void ReadBatches() {
    const absl::Status status = client_->ReadBatches(
        spec_, [this](const v1::ReadBatchesResponse& batch) {
          batches_.push_back(batch);
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
  }

  std::string CreateTrainer() {
    v1::CreateTrainerRequest request;
    *request.mutable_spec() = spec_;
    const auto trainer = client_->CreateTrainer(request);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return trainer.ok() ? trainer->name() : "";
  }

  v1::StepRequest Request(const std::string& trainer, int64_t number) const {
    const v1::ReadBatchesResponse& batch = batches_[number - 1];
    v1::StepRequest request;
    request.set_name(trainer);
    request.set_number(number);
    *request.mutable_batch() = batch.batch();
    *request.mutable_targets() = batch.targets();
    request.set_continue_streams(batch.continue_streams());
    return request;
  }

  // The reply, serialized. Another call may have the trainer just now.
  std::string Send(const std::string& trainer, int64_t number) {
    auto reply = client_->Step(Request(trainer, number));
    while (absl::IsAborted(reply.status())) {
      reply = client_->Step(Request(trainer, number));
    }
    EXPECT_TRUE(reply.ok()) << number << ": " << reply.status();
    return reply.ok() ? reply->SerializeAsString() : "";
  }

  // All calls in order, each `times` times.
  std::vector<std::string> Drive(const std::string& trainer, int times) {
    std::vector<std::string> replies;
    for (int64_t number = 1; number <= count(); ++number) {
      replies.push_back(Send(trainer, number));
      for (int i = 1; i < times; ++i) {
        EXPECT_EQ(Send(trainer, number), replies.back()) << number;
      }
    }
    return replies;
  }

  std::string Sha256(const std::string& trainer) {
    v1::PublishTrainerRequest request;
    request.set_name(trainer);
    const auto published = client_->PublishTrainer(request);
    EXPECT_TRUE(published.ok()) << published.status();
    const auto version = client_->GetModelVersion(published->model_version());
    EXPECT_TRUE(version.ok()) << version.status();
    return version->sha256();
  }

  // As each call once, by one client, ends.
  std::string Undisturbed() {
    const std::string trainer = CreateTrainer();
    Drive(trainer, 1);
    return Sha256(trainer);
  }

  int64_t count() const { return static_cast<int64_t>(batches_.size()); }

  Folder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
  v1::TrainSpec spec_ = TextSpec("stepped", "text", kSteps);
  std::vector<v1::ReadBatchesResponse> batches_;
};

TEST_F(StepsTest, RetriedStepsLeaveTheWeightsTheSame) {
  ASSERT_FALSE(HasFailure());
  const std::string once = Undisturbed();
  const std::string trainer = CreateTrainer();
  Drive(trainer, 3);
  EXPECT_EQ(Sha256(trainer), once);
  std::printf(
      "%jd steps sent once         %s\n%jd steps sent three times  %s\n",
      static_cast<intmax_t>(count()), once.c_str(),
      static_cast<intmax_t>(count()), Sha256(trainer).c_str());
}

TEST_F(StepsTest, TwoClientsDriveOneTrainer) {
  ASSERT_FALSE(HasFailure());
  const std::string once = Undisturbed();
  const std::string trainer = CreateTrainer();
  std::vector<std::string> replies[2];
  std::thread other([&] { replies[1] = Drive(trainer, 1); });
  replies[0] = Drive(trainer, 1);
  other.join();
  EXPECT_TRUE(replies[0] == replies[1]);
  EXPECT_EQ(Sha256(trainer), once);
}

TEST_F(StepsTest, AGapIsRefusedWithThePlaceWhereTheTrainerIs) {
  ASSERT_FALSE(HasFailure());
  const std::string trainer = CreateTrainer();
  Send(trainer, 1);
  const absl::Status status = client_->Step(Request(trainer, 3)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  const auto now = client_->GetTrainer(trainer);
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_EQ(now->last_number(), 1);
}

}  // namespace
}  // namespace recurve::faults
