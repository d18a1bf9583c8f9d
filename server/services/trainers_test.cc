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

  v1::Trainer Get(const std::string& name) {
    v1::GetTrainerRequest request;
    request.set_name(name);
    v1::Trainer trainer;
    ExpectOk(Call(*trainers, &Stub::GetTrainer, request, &trainer));
    return trainer;
  }
  // Of a version's weights.
  std::string Sha256(const std::string& version) {
    v1::GetModelVersionRequest request;
    request.set_name(version);
    v1::ModelVersion published;
    ExpectOk(
        Call(*models, &v1::Models::Stub::GetModelVersion, request, &published));
    return published.sha256();
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
  config.set_max_stored_trainers(1);
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

// Checkpoints repeat it, fields that nobody knows included.
TEST_F(TrainersTest, AConfigThatIsTooLargeIsRefused) {
  const auto enlarge = [](google::protobuf::Message* config) {
    config->GetReflection()->MutableUnknownFields(config)->AddLengthDelimited(
        1000, std::string(1 << 18, 'x'));
  };
  v1::Trainer trainer;
  v1::CreateTrainerRequest request = FromConfig();
  enlarge(request.mutable_config());
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT,
              "config: has 262");
  request = FromConfig();
  enlarge(request.mutable_model_config());
  ExpectError(Create(request, &trainer), StatusCode::INVALID_ARGUMENT,
              "model_config: has 262");
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
              "the budget of devices/0 is 4.0 MiB");
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

// --- Numbered calls ---

TEST_F(TrainersTest, ANumberedStepMadeAgainGetsTheSameReplyAndChangesNothing) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  v1::StepRequest request = TokenStep();
  v1::StepResponse first, again;
  request.set_number(1);
  ExpectOk(Step(request, &first));
  EXPECT_EQ(first.number(), 1);
  std::string before, after;
  ExpectOk(Publish("trainers/t", "", &before));
  for (int i = 0; i < 3; ++i) {
    ExpectOk(Step(request, &again));
    EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  }
  ExpectOk(Publish("trainers/t", "", &after));
  EXPECT_EQ(Sha256(after), Sha256(before));

  request.set_learning_rate(0.5);
  ExpectError(Step(request, &again), StatusCode::INVALID_ARGUMENT, "number");
  request.set_number(3);
  ExpectError(Step(request, &again), StatusCode::FAILED_PRECONDITION,
              "go on from number 2");
  request.set_number(-1);
  ExpectError(Step(request, &again), StatusCode::INVALID_ARGUMENT, "number");
  EXPECT_EQ(Get("trainers/t").last_number(), 1);
}

TEST_F(TrainersTest, OfTwoClientsThatSendTheSameBothGetEachReply) {
  constexpr int64_t kCalls = 16;  // whose replies are all kept
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  std::vector<std::string> replies[2];
  std::vector<std::thread> clients;
  for (auto& mine : replies) {
    clients.emplace_back([&] {
      v1::StepRequest request = TokenStep();
      for (int64_t number = 1; number <= kCalls;) {
        request.set_number(number);
        v1::StepResponse response;
        const grpc::Status status = Step(request, &response);
        if (status.error_code() == StatusCode::ABORTED) continue;
        ExpectOk(status);
        mine.push_back(response.SerializeAsString());
        ++number;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(replies[0], replies[1]);
  EXPECT_EQ(Get("trainers/t").step(), kCalls);
}

TEST_F(TrainersTest, AClientThatGoesAwayInTheMiddleOfAStepChangesNothing) {
  v1::CreateTrainerRequest create = FromConfig();
  // Large enough for the step to take a minute if it is not stopped.
  create.mutable_model_config()
      ->mutable_blocks(0)
      ->mutable_sru()
      ->set_hidden_size(512);
  v1::Trainer trainer;
  ExpectOk(Create(create, &trainer));
  v1::StepRequest large = TokenStep();
  large.set_number(1);
  large.mutable_batch()->Clear();
  large.mutable_batch()->add_cu_seqlens(0);
  for (int i = 1; i <= 500; ++i) {  // each a micro-batch
    large.mutable_batch()->add_cu_seqlens(i * 1500);
  }
  large.mutable_batch()->mutable_tokens()->Resize(500 * 1500, 1);
  large.mutable_targets()->mutable_classes()->Resize(500 * 1500, 2);
  grpc::ClientContext context;
  std::thread client([&] {
    v1::StepResponse response;
    ExpectError(trainers->Step(&context, large, &response),
                StatusCode::CANCELLED, "");
  });
  WaitForRows();
  context.TryCancel();
  client.join();

  v1::StepRequest request = TokenStep();
  request.set_number(1);
  v1::StepResponse response;
  grpc::Status status;
  do {  // until the server has seen that the client is gone
    status = Step(request, &response);
  } while (status.error_code() == StatusCode::ABORTED);
  ExpectOk(status);
  EXPECT_EQ(response.step(), 1);
}

// --- What a call does ---

TEST_F(TrainersTest, ActionsApartAreTheSameAsTogether) {
  const auto train = [this](const std::string& id, bool apart) {
    v1::CreateTrainerRequest create = FromConfig();
    create.set_trainer_id(id);
    v1::Trainer trainer;
    ExpectOk(Create(create, &trainer));
    v1::StepRequest request = TokenStep();
    request.set_name(trainer.name());
    v1::StepResponse response;
    request.set_action(v1::StepRequest::FORWARD_BACKWARD);
    ExpectOk(Step(request, &response));
    EXPECT_FALSE(response.updated());
    EXPECT_EQ(response.accumulated_calls(), 1);
    EXPECT_EQ(Get(trainer.name()).accumulated_calls(), 1);
    if (apart) {
      ExpectOk(Step(request, &response));
      request.clear_batch();
      request.clear_targets();
      request.set_action(v1::StepRequest::OPTIMIZER_STEP);
    } else {
      request.set_action(v1::StepRequest::FORWARD_BACKWARD_OPTIMIZER_STEP);
    }
    request.set_learning_rate(0.25);
    ExpectOk(Step(request, &response));
    EXPECT_TRUE(response.updated());
    EXPECT_EQ(response.learning_rate(), 0.25);
    EXPECT_EQ(response.step(), 1);
    EXPECT_EQ(response.accumulated_calls(), 0);
    std::string version;
    ExpectOk(Publish(trainer.name(), "", &version));
    return Sha256(version);
  };
  EXPECT_EQ(train("apart", true), train("together", false));
}

TEST_F(TrainersTest, NamedStreamsGoOnAsThoseByPlaceDo) {
  const auto train = [this](const std::string& id, bool named) {
    v1::CreateTrainerRequest create = FromConfig();
    create.set_trainer_id(id);
    v1::Trainer trainer;
    ExpectOk(Create(create, &trainer));
    for (int i = 0; i < 3; ++i) {
      v1::StepRequest request = TokenStep();
      request.set_name(trainer.name());
      if (named) {
        request.add_stream_ids("one");
        request.add_stream_ids("two");
        if (i == 2) request.add_end_stream_ids("one");
      } else {
        request.set_continue_streams(i > 0);
      }
      v1::StepResponse response;
      ExpectOk(Step(request, &response));
    }
    std::string version;
    ExpectOk(Publish(trainer.name(), "", &version));
    return Sha256(version);
  };
  EXPECT_EQ(train("named", true), train("placed", false));
}

TEST_F(TrainersTest, CallsThatCannotBe) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  v1::StepResponse response;
  v1::StepRequest request = TokenStep();
  request.set_action(static_cast<v1::StepRequest::Action>(77));
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT, "action");
  request = TokenStep();
  request.set_action(v1::StepRequest::OPTIMIZER_STEP);
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT, "batch");
  request.clear_batch();
  request.clear_targets();
  ExpectError(Step(request, &response), StatusCode::FAILED_PRECONDITION, "");
  request.set_action(v1::StepRequest::FORWARD_BACKWARD);
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT, "");
  request = TokenStep();
  request.add_stream_ids("one of two");
  ExpectError(Step(request, &response), StatusCode::INVALID_ARGUMENT,
              "stream_ids");
  EXPECT_EQ(Get("trainers/t").step(), 0);
}

// --- On disk ---

TEST_F(TrainersTest, ARestartGoesOnWhereItWas) {
  v1::CreateTrainerRequest create = FromConfig();
  for (const char* token : {"a", "b", "c", "d", "e"}) {
    create.add_vocabulary(token);
  }
  create.set_save_every_calls(5);
  v1::Trainer trainer;
  ExpectOk(Create(create, &trainer));
  EXPECT_EQ(trainer.vocabulary_size(), 5);
  v1::StepRequest request = TokenStep();
  v1::StepResponse response, again;
  for (int64_t number : {1, 2, 3}) {
    request.set_number(number);
    ExpectOk(Step(request, &response));
  }
  trainer = Get("trainers/t");
  EXPECT_EQ(trainer.saved_number(), 0);
  EXPECT_TRUE(trainer.loaded());
  Start();

  const v1::Trainer after = Get("trainers/t");
  EXPECT_FALSE(after.loaded());
  EXPECT_EQ(after.saved_number(), 3);
  EXPECT_EQ(after.saved_step(), 3);
  EXPECT_EQ(after.vocabulary_size(), 5);
  EXPECT_EQ(after.model_config().SerializeAsString(),
            trainer.model_config().SerializeAsString());
  EXPECT_EQ(after.config().SerializeAsString(),
            trainer.config().SerializeAsString());
  EXPECT_EQ(after.create_time().SerializeAsString(),
            trainer.create_time().SerializeAsString());
  EXPECT_EQ(after.save_every_calls(), 5);
  ExpectOk(Step(request, &again));
  EXPECT_EQ(again.SerializeAsString(), response.SerializeAsString());
}

TEST_F(TrainersTest, SavesListsAndLoadsCheckpoints) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  v1::StepRequest request = TokenStep();
  v1::StepResponse response;
  ExpectOk(Step(request, &response));
  v1::SaveTrainerRequest save;
  save.set_name("trainers/t");
  v1::TrainerCheckpoint checkpoint;
  ExpectOk(Call(*trainers, &Stub::SaveTrainer, save, &checkpoint));
  EXPECT_EQ(checkpoint.name(), "");
  EXPECT_EQ(checkpoint.step(), 1);
  EXPECT_EQ(Get("trainers/t").saved_step(), 1);
  save.set_checkpoint_id("first");
  ExpectOk(Call(*trainers, &Stub::SaveTrainer, save, &checkpoint));
  EXPECT_EQ(checkpoint.name(), "trainers/t/checkpoints/first");
  EXPECT_GT(checkpoint.size_bytes(), 0);
  EXPECT_GT(checkpoint.create_time().seconds(), 0);
  save.set_checkpoint_id("First");
  ExpectError(Call(*trainers, &Stub::SaveTrainer, save, &checkpoint),
              StatusCode::INVALID_ARGUMENT, "checkpoint_id");

  std::string before, after;
  ExpectOk(Publish("trainers/t", "", &before));
  ExpectOk(Step(request, &response));
  v1::LoadTrainerRequest load;
  load.set_name("trainers/t");
  load.set_checkpoint("trainers/t/checkpoints/first");
  ExpectOk(Call(*trainers, &Stub::LoadTrainer, load, &trainer));
  EXPECT_EQ(trainer.step(), 1);
  ExpectOk(Publish("trainers/t", "", &after));
  EXPECT_EQ(Sha256(after), Sha256(before));
  load.set_weights_only(true);
  ExpectOk(Call(*trainers, &Stub::LoadTrainer, load, &trainer));
  EXPECT_EQ(trainer.step(), 0);
  for (const char* bad : {"first", "trainers/t", "trainers/t/checkpoints/",
                          "trainers/t/checkpoints/../x"}) {
    load.set_checkpoint(bad);
    ExpectError(Call(*trainers, &Stub::LoadTrainer, load, &trainer),
                StatusCode::INVALID_ARGUMENT, "checkpoint");
  }

  v1::ListTrainerCheckpointsRequest list;
  list.set_name("trainers/t");
  v1::ListTrainerCheckpointsResponse checkpoints;
  ExpectOk(Call(*trainers, &Stub::ListTrainerCheckpoints, list, &checkpoints));
  ASSERT_EQ(checkpoints.checkpoints_size(), 1);
  EXPECT_EQ(checkpoints.checkpoints(0).name(), "trainers/t/checkpoints/first");
}

// --- The weights in training ---

TEST_F(TrainersTest, PredictsAndEvaluatesWithTheWeightsInTraining) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  v1::StepResponse response;
  for (int i = 0; i < 3; ++i) {
    ExpectOk(Step(TokenStep(), &response));
    std::string version;
    ExpectOk(Publish("trainers/t", "", &version));

    v1::PredictRequest predict;
    *predict.mutable_batch() = Tokens({{0, 1, 2, 3}});
    predict.set_want_logits(true);
    predict.set_want_state(true);
    v1::PredictResponse training, published;
    predict.set_model("trainers/t");
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Predict, predict, &training));
    EXPECT_EQ(training.model_version(), "trainers/t");
    predict.set_model(version);
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Predict, predict, &published));
    EXPECT_EQ(training.logits(), published.logits());
    EXPECT_EQ(training.state(), published.state());

    v1::EvaluateRequest evaluate;
    *evaluate.mutable_batch() = Tokens({{0, 1, 2, 3}});
    v1::EvaluateResponse losses[2];
    evaluate.set_model("trainers/t");
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Evaluate, evaluate, &losses[0]));
    evaluate.set_model(version);
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Evaluate, evaluate, &losses[1]));
    EXPECT_EQ(losses[0].loss(), losses[1].loss());
  }
  v1::PredictRequest predict;
  v1::PredictResponse none;
  *predict.mutable_batch() = Tokens({{0}});
  predict.set_model("trainers/none");
  ExpectError(Call(*inference, &v1::Inference::Stub::Predict, predict, &none),
              StatusCode::NOT_FOUND, "trainers/none");
  predict.set_model("trainers/t/versions/1");
  ExpectError(Call(*inference, &v1::Inference::Stub::Predict, predict, &none),
              StatusCode::INVALID_ARGUMENT, "model");
}

TEST_F(TrainersTest, ReadersAndStepsAtTheSameTime) {
  v1::Trainer trainer;
  ExpectOk(Create(FromConfig(), &trainer));
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      v1::PredictRequest predict;
      predict.set_model("trainers/t");
      *predict.mutable_batch() = Tokens({{0, 1}});
      while (!done) {
        v1::PredictResponse response;
        ExpectOk(Call(*inference, &v1::Inference::Stub::Predict, predict,
                      &response));
      }
    });
  }
  v1::StepResponse response;
  for (int i = 0; i < 50; ++i) ExpectOk(Step(TokenStep(), &response));
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(response.step(), 50);
}

}  // namespace
}  // namespace recurve::server
