#include "tests/faults/actors.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "gtest/gtest.h"
#include "kernels/status.h"
#include "tests/faults/workload.h"

namespace recurve::faults {
namespace {

// At least two, which is what training could read.
std::string Bytes(int64_t seed, int64_t max_bytes) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::string bytes(random() % (max_bytes - 1) + 2, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Deletions are tried again: what is gone already is as good.
absl::Status Gone(absl::Status status) {
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::string> ExportedWeights(Client& client,
                                            const std::string& version) {
  std::string weights, file;
  RETURN_IF_ERROR(client.ExportModel(
      version, [&](const std::string& name, absl::string_view chunk) {
        if (!name.empty()) file = name;
        if (file == "model.safetensors")
          weights.append(chunk.data(), chunk.size());
        return absl::OkStatus();
      }));
  return weights;
}

// The sha256 that the weights have; the first ones say which they must have.
void ExpectWeights(const std::string& version, const std::string& sha256,
                   std::string& expected) {
  if (expected.empty()) expected = sha256;
  EXPECT_EQ(sha256, expected) << version;
}

}  // namespace

void Actor::Work(Client& client, const std::atomic<bool>& stop) {
  Reconnected();
  while (!stop) {
    const absl::Status status = Next(client);
    if (absl::IsUnavailable(status)) return;
    ASSERT_TRUE(status.ok()) << typeid(*this).name() << ": " << status;
  }
}

absl::Status Uploader::Next(Client& client) {
  const std::string bytes = Bytes(done_, max_bytes_);
  v1::UploadDatasetRequest::Header header;
  header.set_dataset_id(absl::StrCat("data-", done_));
  ASSIGN_OR_RETURN(const v1::Dataset dataset,
                   client.UploadDataset(header, bytes));
  promises_.Kept(dataset.name(), Sha256Hex(bytes));
  if (done_ >= kept_) {
    const std::string old = absl::StrCat("datasets/data-", done_ - kept_);
    promises_.Deleting(old);
    RETURN_IF_ERROR(Gone(client.DeleteDataset(old)));
    promises_.Deleted(old);
  }
  ++done_;
  return absl::OkStatus();
}

absl::Status Publisher::Next(Client& client) {
  const std::string created = absl::StrCat("created-", done_);
  const std::string imported = absl::StrCat("imported-", done_);
  RETURN_IF_ERROR(Create(client, created));
  RETURN_IF_ERROR(Import(client, imported, created));
  if (done_ >= kept_) {
    const std::string old = absl::StrCat("models/created-", done_ - kept_);
    promises_.Deleting(old + "/versions/1");
    RETURN_IF_ERROR(Gone(client.DeleteModel(old)));
    promises_.Deleted(old + "/versions/1");
  }
  ++done_;
  return absl::OkStatus();
}

absl::Status Publisher::Create(Client& client, const std::string& id) {
  v1::CreateModelRequest request;
  request.set_model_id(id);
  *request.mutable_config() = SmallConfig();
  request.set_seed(static_cast<uint64_t>(done_));
  request.set_request_id("create-" + id);
  ASSIGN_OR_RETURN(const v1::Model model, client.CreateModel(request));
  EXPECT_EQ(model.version_count(), 1) << model.name();
  ASSIGN_OR_RETURN(const v1::ModelVersion version,
                   client.GetModelVersion(model.latest_version()));
  promises_.Kept(version.name(), version.sha256());
  return absl::OkStatus();
}

absl::Status Publisher::Import(Client& client, const std::string& id,
                               const std::string& from) {
  ASSIGN_OR_RETURN(const std::string weights,
                   ExportedWeights(client, "models/" + from));
  v1::ImportModelRequest::Header header;
  header.set_model_id(id);
  *header.mutable_config() = SmallConfig();
  header.set_request_id("import-" + id);
  ASSIGN_OR_RETURN(const v1::ModelVersion version,
                   client.ImportModel(header, weights));
  EXPECT_EQ(version.name(), absl::StrCat("models/", id, "/versions/1"));
  promises_.Kept(version.name(), version.sha256());
  return absl::OkStatus();
}

Trainee::Trainee(Promises& promises, const std::string& name,
                 const v1::TrainSpec& spec, std::string sha256)
    : Actor(promises), name_(name), spec_(spec), sha256_(std::move(sha256)) {}

absl::Status Trainee::Next(Client& client) {
  if (job_.empty()) RETURN_IF_ERROR(Submit(client));
  RETURN_IF_ERROR(Watch(client));
  RETURN_IF_ERROR(CheckEvents(client));
  RETURN_IF_ERROR(CheckEnd(client));
  job_.clear();
  events_.clear();
  if (last_.state() == v1::Job::FAILED) {
    ++failed_;
    return absl::AbortedError(absl::StrCat(last_.name(), ": ", last_.cause()));
  }
  ++done_;
  return absl::OkStatus();
}

absl::Status Trainee::Submit(Client& client) {
  v1::TrainRequest request;
  *request.mutable_spec() = spec_;
  request.set_request_id(absl::StrCat(name_, "-", done_, "-", failed_));
  ASSIGN_OR_RETURN(const v1::Job job, client.Train(request));
  promises_.Kept(job.name());
  job_ = job.name();
  return absl::OkStatus();
}

absl::Status Trainee::Watch(Client& client) {
  return client.WatchJob(
      job_, static_cast<int64_t>(events_.size()),
      [this](const v1::JobEvent& event) {
        EXPECT_EQ(event.number(), static_cast<int64_t>(events_.size())) << job_;
        events_.push_back(event.SerializeAsString());
        if (event.has_state()) last_ = event.state();
        return absl::OkStatus();
      });
}

// What was seen piece by piece is what there is to see.
absl::Status Trainee::CheckEvents(Client& client) const {
  std::vector<std::string> all;
  RETURN_IF_ERROR(client.WatchJob(job_, 0, [&](const v1::JobEvent& event) {
    all.push_back(event.SerializeAsString());
    return absl::OkStatus();
  }));
  EXPECT_TRUE(all == events_)
      << job_ << ": " << all.size() << " events, seen " << events_.size();
  return absl::OkStatus();
}

absl::Status Trainee::CheckEnd(Client& client) {
  promises_.Kept(job_, DescribeEnd(last_));
  if (last_.state() == v1::Job::FAILED) return absl::OkStatus();
  EXPECT_EQ(last_.state(), v1::Job::SUCCEEDED) << last_.ShortDebugString();
  ASSIGN_OR_RETURN(const v1::ModelVersion version,
                   client.GetModelVersion(last_.model_version()));
  ExpectWeights(version.name(), version.sha256(), sha256_);
  promises_.Kept(version.name(), version.sha256());
  return absl::OkStatus();
}

Stepper::Stepper(Promises& promises, const v1::TrainSpec& spec,
                 std::string sha256)
    : Actor(promises), spec_(spec), sha256_(std::move(sha256)) {}

absl::Status Stepper::Next(Client& client) {
  RETURN_IF_ERROR(Prepare(client));
  while (replies_.size() < batches_.size()) RETURN_IF_ERROR(OneStep(client));
  return Finish(client);
}

absl::Status Stepper::Prepare(Client& client) {
  if (trainer_.empty()) return Create(client);
  return repeat_ ? Repeat(client) : absl::OkStatus();
}

absl::Status Stepper::Create(Client& client) {
  batches_.clear();
  RETURN_IF_ERROR(
      client.ReadBatches(spec_, [&](const v1::ReadBatchesResponse& batch) {
        batches_.push_back(batch);
        return absl::OkStatus();
      }));
  v1::CreateTrainerRequest request;
  request.set_trainer_id(absl::StrCat("stepper-", done_));
  request.set_request_id(request.trainer_id());
  request.set_save_every_calls(1);
  *request.mutable_spec() = spec_;
  ASSIGN_OR_RETURN(const v1::Trainer trainer, client.CreateTrainer(request));
  trainer_ = trainer.name();
  promises_.Kept(trainer_);
  return absl::OkStatus();
}

v1::StepRequest Stepper::Request(int64_t number) const {
  const v1::ReadBatchesResponse& batch = batches_[number - 1];
  v1::StepRequest request;
  request.set_name(trainer_);
  request.set_number(number);
  *request.mutable_batch() = batch.batch();
  *request.mutable_targets() = batch.targets();
  request.set_continue_streams(batch.continue_streams());
  return request;
}

absl::Status Stepper::Repeat(Client& client) {
  const auto number = static_cast<int64_t>(replies_.size());
  ASSIGN_OR_RETURN(const v1::StepResponse again, client.Step(Request(number)));
  EXPECT_EQ(again.SerializeAsString(), replies_.back())
      << trainer_ << ": call " << number << " was answered otherwise before";
  ++retries_;
  repeat_ = false;
  return absl::OkStatus();
}

absl::Status Stepper::OneStep(Client& client) {
  RETURN_IF_ERROR(Prepare(client));
  const auto number = static_cast<int64_t>(replies_.size()) + 1;
  ASSIGN_OR_RETURN(const v1::StepResponse reply, client.Step(Request(number)));
  EXPECT_EQ(reply.number(), number);
  replies_.push_back(reply.SerializeAsString());
  return absl::OkStatus();
}

absl::Status Stepper::Finish(Client& client) {
  if (!published_) RETURN_IF_ERROR(Publish(client));
  promises_.Deleting(trainer_);
  RETURN_IF_ERROR(Gone(client.DeleteTrainer(trainer_)));
  promises_.Deleted(trainer_);
  trainer_.clear();
  replies_.clear();
  published_ = false;
  ++done_;
  return absl::OkStatus();
}

absl::Status Stepper::Publish(Client& client) {
  v1::PublishTrainerRequest request;
  request.set_name(trainer_);
  request.set_request_id(trainer_);
  ASSIGN_OR_RETURN(const auto published, client.PublishTrainer(request));
  ASSIGN_OR_RETURN(const v1::ModelVersion version,
                   client.GetModelVersion(published.model_version()));
  ExpectWeights(version.name(), version.sha256(), sha256_);
  promises_.Kept(version.name(), version.sha256());
  published_ = true;
  return absl::OkStatus();
}

}  // namespace recurve::faults
