#include <string>
#include <thread>
#include <vector>

#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;
using Stub = v1::Trainers::Stub;

class TrainersTest : public ServiceTest {
 protected:
  grpc::Status Create(const v1::CreateTrainerRequest& request,
                      v1::Trainer* trainer) {
    return Call(*trainers, &Stub::CreateTrainer, request, trainer);
  }
  grpc::Status Step(const v1::StepRequest& request,
                    v1::StepResponse* response) {
    return Call(*trainers, &Stub::Step, request, response);
  }
  grpc::Status Publish(const std::string& name, const std::string& request_id,
                       std::string* version) {
    v1::PublishTrainerRequest request;
    request.set_name(name);
    request.set_request_id(request_id);
    v1::PublishTrainerResponse response;
    const grpc::Status status =
        Call(*trainers, &Stub::PublishTrainer, request, &response);
    *version = response.model_version();
    return status;
  }

  static v1::CreateTrainerRequest FromConfig() {
    v1::CreateTrainerRequest request;
    request.set_trainer_id("t");
    request.set_model("models/lm");
    *request.mutable_model_config() = TokenConfig();
    *request.mutable_config() = SgdConfig();
    return request;
  }
  // One epoch of the dataset `text`.
  static v1::TrainSpec TextSpec() {
    v1::TrainSpec spec;
    spec.set_model("models/spec");
    *spec.mutable_config() = TokenConfig();
    spec.mutable_data()->set_dataset("datasets/text");
    spec.mutable_format()->mutable_text();
    spec.mutable_loader()->set_batch_size(2);
    spec.mutable_loader()->set_unroll(3);
    *spec.mutable_trainer() = SgdConfig();
    spec.set_max_epochs(1);
    return spec;
  }
  // The job as it ended.
  v1::Job LastState(const std::string& name) {
    v1::WatchJobRequest request;
    request.set_name(name);
    grpc::ClientContext context;
    auto events = jobs->WatchJob(&context, request);
    v1::Job job;
    v1::JobEvent event;
    while (events->Read(&event)) {
      if (event.has_state()) job = event.state();
    }
    return job;
  }
  static v1::StepRequest TokenStep() {
    v1::StepRequest request;
    request.set_name("trainers/t");
    *request.mutable_batch() = Tokens({{0, 1, 2}, {4, 3}});
    for (int32_t c : {1, 2, 3, 3, 2}) {
      request.mutable_targets()->add_classes(c);
    }
    return request;
  }
};

TEST_F(TrainersTest, TrainsStepByStepAndPublishes) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  EXPECT_EQ(trainer.name(), "trainers/t");
  EXPECT_EQ(trainer.model(), "models/lm");
  EXPECT_EQ(trainer.step(), 0);
  v1::StepResponse first, last;
  ExpectOk(Step(TokenStep(), &first));
  EXPECT_EQ(first.step(), 1);
  EXPECT_TRUE(first.updated());
  EXPECT_EQ(first.rows(), 5);
  EXPECT_EQ(first.weight(), 5);
  EXPECT_GT(first.gradient_norm(), 0);
  EXPECT_FLOAT_EQ(first.learning_rate(), 0.1);
  EXPECT_GT(first.devices_size(), 0);
  for (int i = 0; i < 20; ++i) ExpectOk(Step(TokenStep(), &last));
  EXPECT_LT(last.loss(), first.loss());

  std::string version;
  ExpectOk(Publish("trainers/t", "r", &version));
  EXPECT_EQ(version, "models/lm/versions/1");
  ExpectOk(Publish("trainers/t", "r", &version));
  EXPECT_EQ(version, "models/lm/versions/1");
  ExpectOk(Publish("trainers/t", "", &version));
  EXPECT_EQ(version, "models/lm/versions/2");
  v1::GetModelVersionRequest get;
  get.set_name(version);
  v1::ModelVersion published;
  ExpectOk(Call(*models, &v1::Models::Stub::GetModelVersion, get, &published));
  EXPECT_EQ(published.source(), "trainers/t");

  // From the version it goes on with the same loss.
  v1::CreateTrainerRequest again;
  again.set_from_version(version);
  *again.mutable_config() = SgdConfig();
  ExpectOk(Create(again, &trainer));
  EXPECT_EQ(trainer.model(), "models/lm");
  v1::StepResponse both[2];
  ExpectOk(Step(TokenStep(), &both[0]));
  v1::StepRequest step = TokenStep();
  step.set_name(trainer.name());
  ExpectOk(Step(step, &both[1]));
  EXPECT_EQ(both[0].loss(), both[1].loss());
}

TEST_F(TrainersTest, ListsAndDeletes) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  v1::CreateTrainerRequest unnamed = FromConfig();
  unnamed.clear_trainer_id();
  ExpectOk(Create(unnamed, &trainer));
  EXPECT_EQ(trainer.name().substr(0, 17), "trainers/trainer-");

  v1::ListTrainersRequest list;
  list.set_page_size(1);
  v1::ListTrainersResponse page;
  ExpectOk(Call(*trainers, &Stub::ListTrainers, list, &page));
  ASSERT_EQ(page.trainers_size(), 1);
  EXPECT_EQ(page.trainers(0).name(), "trainers/t");
  list.set_page_token(page.next_page_token());
  ExpectOk(Call(*trainers, &Stub::ListTrainers, list, &page));
  EXPECT_EQ(page.trainers(0).name(), trainer.name());
  EXPECT_EQ(page.next_page_token(), "");

  v1::DeleteTrainerRequest remove;
  remove.set_name("trainers/t");
  google::protobuf::Empty empty;
  ExpectOk(Call(*trainers, &Stub::DeleteTrainer, remove, &empty));
  v1::GetTrainerRequest get;
  get.set_name("trainers/t");
  ExpectError(Call(*trainers, &Stub::GetTrainer, get, &trainer),
              StatusCode::NOT_FOUND, "trainers/t");
}

TEST_F(TrainersTest, RepeatedCreationsAndLimits) {
  config.set_max_trainers(1);
  Start();
  v1::CreateTrainerRequest request = FromConfig();
  request.set_request_id("r");
  v1::Trainer trainer;
  ExpectOk(Create(request, &trainer));
  ExpectOk(Create(request, &trainer));
  ExpectError(Create(FromConfig(), &trainer), StatusCode::ALREADY_EXISTS, "t");
  request = FromConfig();
  request.set_trainer_id("other");
  ExpectError(Create(request, &trainer), StatusCode::RESOURCE_EXHAUSTED, "1");
}

TEST_F(TrainersTest, WhatCannotBeTrained) {
  v1::Trainer trainer;
  v1::CreateTrainerRequest request = FromConfig();
  request.mutable_model_config()->clear_loss();
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT, "loss");
  request = FromConfig();
  request.mutable_config()->clear_optimizer();
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT,
              "optimizer");
  request = FromConfig();
  request.clear_model();
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT, "model");
  request = FromConfig();
  request.set_from_version("models/lm/versions/1");
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT,
              "from_version");
  request = FromConfig();
  request.clear_model_config();
  ExpectError(Create(request, &trainer), StatusCode::NOT_FOUND, "models/lm");
  request = FromConfig();
  request.mutable_spec()->set_model("models/lm");
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT, "spec");
  request = FromConfig();
  request.set_trainer_id("T");
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT,
              "trainer_id");
}

TEST_F(TrainersTest, ModelsBeyondTheLimitAreRefusedHoweverTheyAreDescribed) {
  config.set_max_parameters(100);
  Start();
  Upload("text", "abcdeabcdeabcde");
  v1::Trainer trainer;
  ExpectError(Create(FromConfig(), &trainer), StatusCode::RESOURCE_EXHAUSTED,
              "the limit is 100");
  // The data, not the config, says how large this one is.
  v1::CreateTrainerRequest request;
  v1::TrainSpec& spec = *request.mutable_spec();
  spec = TextSpec();
  spec.mutable_config()->mutable_output()->mutable_linear()->clear_size();
  ExpectError(Create(request, &trainer), StatusCode::RESOURCE_EXHAUSTED,
              "the limit is 100");
  v1::TrainRequest train;
  *train.mutable_spec() = spec;
  v1::Job job;
  ExpectOk(Call(*jobs, &v1::Jobs::Stub::Train, train, &job));
  job = LastState(job.name());
  EXPECT_EQ(job.state(), v1::Job::FAILED);
  EXPECT_NE(job.cause().find("the limit is 100"), std::string::npos)
      << job.cause();
}

TEST_F(TrainersTest, BadStepsChangeNothing) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  v1::StepResponse response;
  v1::StepRequest request = TokenStep();
  request.mutable_batch()->set_tokens(2, 5);
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT, "5");
  request = TokenStep();
  request.mutable_targets()->set_classes(0, 5);
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT, "5");
  request.mutable_targets()->clear_classes();
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT,
              "targets");
  request = TokenStep();
  request.mutable_batch()->set_cu_seqlens(1, 0);
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT, "0");
  request = TokenStep();
  request.set_name("trainers/none");
  ExpectError(Step(request, &response), StatusCode::NOT_FOUND, "none");
  request.set_name("none");
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT,
              "trainers/ID");
  ExpectOk(Step(TokenStep(), &response));
  EXPECT_EQ(response.step(), 1);
}

TEST_F(TrainersTest, StepsAtTheSameTimeAreDoneOrRefusedAsAWhole) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        v1::StepResponse response;
        const grpc::Status status = Step(TokenStep(), &response);
        if (status.ok()) {
          ++done;
        } else {
          ExpectError(status, StatusCode::ABORTED, "trainers/t");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(done, 0);
  v1::StepResponse response;
  ExpectOk(Step(TokenStep(), &response));
  EXPECT_EQ(response.step(), done + 1);
}

TEST_F(TrainersTest, AStepBeyondTheDevicesMemoryIsRefusedAndHarmsNothing) {
  config.set_devices("cpu:1:memory=4MiB,cpu:1:memory=4MiB");
  Start();
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  v1::StepResponse response;
  ExpectOk(Step(TokenStep(), &response));
  const double loss = response.loss();
  v1::StepRequest large = TokenStep();
  const std::vector<int32_t> tokens(200000, 1);
  *large.mutable_batch() = Tokens({tokens, {1, 2}});
  large.mutable_targets()->clear_classes();
  large.mutable_targets()->mutable_classes()->Add(tokens.begin(), tokens.end());
  large.mutable_targets()->add_classes(2);
  large.mutable_targets()->add_classes(3);
  ExpectError(Step(large, &response), StatusCode::RESOURCE_EXHAUSTED,
              "memory budget is 4194304 bytes");
  ExpectOk(Step(TokenStep(), &response));
  EXPECT_EQ(response.step(), 2);
  EXPECT_LT(response.loss(), loss);
}

TEST_F(TrainersTest, StartsFromATrainingSpec) {
  Upload("text", "abcdeabcdeabcde");
  v1::CreateTrainerRequest request;
  request.set_trainer_id("t");
  const v1::TrainSpec spec = TextSpec();
  *request.mutable_spec() = spec;
  v1::Trainer trainer;
  ExpectOk(Create(request, &trainer));
  EXPECT_EQ(trainer.model(), "models/spec");

  v1::ReadBatchesRequest read;
  *read.mutable_spec() = spec;
  grpc::ClientContext context;
  auto reader = datasets->ReadBatches(&context, read);
  v1::ReadBatchesResponse batch;
  while (reader->Read(&batch)) {
    v1::StepRequest step;
    step.set_name("trainers/t");
    *step.mutable_batch() = batch.batch();
    *step.mutable_targets() = batch.targets();
    step.set_continue_streams(batch.continue_streams());
    v1::StepResponse response;
    ExpectOk(Step(step, &response));
  }
  ExpectOk(reader->Finish());
  std::string stepped;
  ExpectOk(Publish("trainers/t", "", &stepped));

  // The job of the same spec ends with the same weights.
  v1::TrainRequest train;
  *train.mutable_spec() = spec;
  v1::Job job;
  ExpectOk(Call(*jobs, &v1::Jobs::Stub::Train, train, &job));
  job = LastState(job.name());
  ASSERT_EQ(job.state(), v1::Job::SUCCEEDED) << job.cause();
  v1::ModelVersion versions[2];
  v1::GetModelVersionRequest get;
  get.set_name(stepped);
  ExpectOk(
      Call(*models, &v1::Models::Stub::GetModelVersion, get, &versions[0]));
  get.set_name(job.model_version());
  ExpectOk(
      Call(*models, &v1::Models::Stub::GetModelVersion, get, &versions[1]));
  EXPECT_NE(versions[0].name(), versions[1].name());
  EXPECT_EQ(versions[0].sha256(), versions[1].sha256());
  EXPECT_EQ(versions[0].vocabulary_size(), 5);
}

}  // namespace
}  // namespace recurve::server
