#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/resource_id.h"
#include "engine/base/sha256.h"
#include "engine/model/model.h"
#include "engine/train/trainer_store.h"
#include "kernels/status.h"
#include "proto/recurve/v1/compute.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/request_strings.h"
#include "server/resource_name.h"
#include "server/services/services.h"
#include "server/services/trainer_start.h"

namespace recurve::server {
namespace {

using google::protobuf::Empty;
using grpc::CallbackServerContext;

v1::Trainer Describe(const TrainerInfo& trainer, bool with_vocabulary) {
  const TrainerOrigin& origin = *trainer.origin;
  v1::Trainer wire;
  wire.set_name(absl::StrCat("trainers/", trainer.id));
  *wire.mutable_create_time() = ToWire(origin.create_time);
  wire.set_model(origin.model_name);
  *wire.mutable_model_config() = origin.model->config();
  *wire.mutable_config() = origin.config;
  wire.set_step(trainer.step);
  wire.set_last_number(trainer.last_number);
  wire.set_accumulated_calls(trainer.accumulated_calls);
  wire.set_saved_step(trainer.saved_step);
  wire.set_saved_number(trainer.saved_number);
  wire.set_loaded(trainer.loaded);
  wire.set_save_every_calls(origin.save_every_calls);
  if (with_vocabulary) {
    wire.mutable_vocabulary()->Assign(origin.vocabulary.begin(),
                                      origin.vocabulary.end());
  }
  return wire;
}

v1::TrainerCheckpoint Describe(absl::string_view trainer_id,
                               const NamedTrainerSummary& checkpoint) {
  const TrainerSummary& summary = checkpoint.summary;
  v1::TrainerCheckpoint wire;
  if (!checkpoint.id.empty()) {
    wire.set_name(
        absl::StrCat("trainers/", trainer_id, "/checkpoints/", checkpoint.id));
  }
  wire.set_step(summary.step);
  wire.set_last_number(summary.record.calls.last_number());
  *wire.mutable_create_time() = ToWire(summary.record.save_time);
  wire.set_size_bytes(summary.size_bytes);
  return wire;
}

absl::Status CreateTrainer(Engine& engine,
                           const v1::CreateTrainerRequest& request,
                           v1::Trainer* response) {
  RETURN_IF_ERROR(CheckStrings(request));
  const std::string id = IdOrRandom(request.trainer_id(), "trainer-");
  RETURN_IF_ERROR(CheckResourceId(id, "trainer_id"));
  ASSIGN_OR_RETURN(const TrainerInfo trainer,
                   engine.trainers->Create(id, request.request_id(), [&] {
                     return StartOf(engine, request);
                   }));
  *response = Describe(trainer, /*with_vocabulary=*/true);
  return absl::OkStatus();
}

// --- Calls on a trainer ---

absl::StatusOr<std::string> IdOf(absl::string_view name) {
  return ParseName(name, "trainers", "name");
}

absl::StatusOr<StepAction> ActionOf(const v1::StepRequest& request) {
  switch (request.action()) {
    case v1::StepRequest::ACTION_UNSPECIFIED:
    case v1::StepRequest::STEP:
      return StepAction::kStep;
    case v1::StepRequest::FORWARD_BACKWARD:
      return StepAction::kForwardBackward;
    case v1::StepRequest::OPTIMIZER_STEP:
      return StepAction::kOptimizerStep;
    case v1::StepRequest::FORWARD_BACKWARD_OPTIMIZER_STEP:
      return StepAction::kForwardBackwardOptimizerStep;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "action: ", static_cast<int>(request.action()), " is none"));
  }
}

// What a request of Step holds, in the engine's types.
struct NativeStep {
  SequenceBatch batch;
  Targets targets;
  std::vector<std::string> stream_ids;
  std::vector<std::string> end_stream_ids;
};

absl::Status CheckBatch(const Engine& engine, const Model& model,
                        const NativeStep& step) {
  RETURN_IF_ERROR(
      model.CheckBatch(step.batch, /*allow_empty_sequences=*/false));
  RETURN_IF_ERROR(model.CheckTargets(step.batch, step.targets));
  if (step.batch.num_rows() <= engine.config.max_request_rows()) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "batch: ", step.batch.num_rows(), " rows, the limit of one request is ",
      engine.config.max_request_rows()));
}

absl::Status Step(Engine& engine, const v1::StepRequest& request,
                  const CallControl& control, v1::StepResponse* response) {
  ASSIGN_OR_RETURN(const std::string id, IdOf(request.name()));
  ASSIGN_OR_RETURN(const TrainerInfo trainer, engine.trainers->Get(id));
  NumberedStep step;
  NativeStep native;
  ASSIGN_OR_RETURN(step.call.action, ActionOf(request));
  if (request.has_batch() || step.call.action != StepAction::kOptimizerStep) {
    ASSIGN_OR_RETURN(native.batch, FromWire(request.batch()));
    ASSIGN_OR_RETURN(native.targets, FromWire(request.targets()));
    RETURN_IF_ERROR(CheckBatch(engine, *trainer.origin->model, native));
    step.call.batch = &native.batch;
    step.call.targets = &native.targets;
  }
  native.stream_ids = ToVector(request.stream_ids());
  native.end_stream_ids = ToVector(request.end_stream_ids());
  step.call.continue_streams = request.continue_streams();
  step.call.stream_ids = native.stream_ids;
  step.call.end_stream_ids = native.end_stream_ids;
  if (request.has_learning_rate()) {
    step.call.learning_rate = request.learning_rate();
  }
  step.call.cancelled = control.cancelled.get();
  step.number = request.number();
  if (step.number != 0) {
    step.request_sha256 = Sha256Hex(request.SerializeAsString());
  }
  ASSIGN_OR_RETURN(const StepResult result, engine.trainers->Step(id, step));
  *response = ToWire(result);
  response->set_number(request.number());
  return absl::OkStatus();
}

absl::Status SaveTrainer(Engine& engine, const v1::SaveTrainerRequest& request,
                         v1::TrainerCheckpoint* response) {
  ASSIGN_OR_RETURN(const std::string id, IdOf(request.name()));
  ASSIGN_OR_RETURN(const NamedTrainerSummary saved,
                   engine.trainers->Save(id, request.checkpoint_id()));
  *response = Describe(id, saved);
  return absl::OkStatus();
}

absl::Status ListTrainerCheckpoints(
    const Engine& engine, const v1::ListTrainerCheckpointsRequest& request,
    v1::ListTrainerCheckpointsResponse* response) {
  ASSIGN_OR_RETURN(const std::string id, IdOf(request.name()));
  ASSIGN_OR_RETURN(const auto checkpoints,
                   engine.trainers->ListCheckpoints(id));
  for (const NamedTrainerSummary& checkpoint : checkpoints) {
    *response->add_checkpoints() = Describe(id, checkpoint);
  }
  return absl::OkStatus();
}

absl::Status LoadTrainer(Engine& engine, const v1::LoadTrainerRequest& request,
                         v1::Trainer* response) {
  ASSIGN_OR_RETURN(const std::string id, IdOf(request.name()));
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(request.checkpoint(), absl::MaxSplits("/checkpoints/", 1));
  ASSIGN_OR_RETURN(const std::string source,
                   ParseName(parts.first, "trainers", "checkpoint"));
  RETURN_IF_ERROR(CheckResourceId(parts.second, "checkpoint"));
  ASSIGN_OR_RETURN(const TrainerInfo trainer,
                   engine.trainers->GoOnFrom(id, source, parts.second,
                                             request.weights_only()));
  *response = Describe(trainer, /*with_vocabulary=*/true);
  return absl::OkStatus();
}

absl::Status PublishTrainer(Engine& engine,
                            const v1::PublishTrainerRequest& request,
                            const CallControl& control,
                            v1::PublishTrainerResponse* response) {
  RETURN_IF_ERROR(CheckStrings(request));
  ASSIGN_OR_RETURN(const std::string id, IdOf(request.name()));
  ASSIGN_OR_RETURN(const TrainerInfo trainer, engine.trainers->Get(id));
  const TrainerOrigin& origin = *trainer.origin;
  ASSIGN_OR_RETURN(const std::string model_id,
                   ParseName(origin.model_name, "models", "model"));
  ModelHandle version =
      engine.registry->FindRequest(model_id, request.request_id());
  if (version == nullptr) {
    ASSIGN_OR_RETURN(const ModelHandle weights,
                     engine.trainers->Weights(id, control.deadline));
    ASSIGN_OR_RETURN(const auto parameters, weights->Parameters());
    VersionContents contents;
    contents.model = origin.model;
    contents.parameters = *parameters;
    contents.vocabulary = origin.vocabulary;
    contents.names = origin.names;
    contents.source = absl::StrCat("trainers/", id);
    contents.request_id = request.request_id();
    ASSIGN_OR_RETURN(version,
                     engine.registry->Publish(model_id, std::move(contents)));
  }
  response->set_model_version(version->name);
  return absl::OkStatus();
}

absl::Status GetTrainer(const Engine& engine,
                        const v1::GetTrainerRequest& request,
                        v1::Trainer* response) {
  ASSIGN_OR_RETURN(const std::string id, IdOf(request.name()));
  ASSIGN_OR_RETURN(const TrainerInfo trainer, engine.trainers->Get(id));
  *response = Describe(trainer, /*with_vocabulary=*/true);
  return absl::OkStatus();
}

absl::Status ListTrainers(const Engine& engine,
                          const v1::ListTrainersRequest& request,
                          v1::ListTrainersResponse* response) {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  if (!request.page_token().empty()) {  // the last id of the page before
    RETURN_IF_ERROR(CheckResourceId(request.page_token(), "page_token"));
  }
  std::string last;
  for (const TrainerInfo& trainer :
       engine.trainers->List(request.page_token(), size + 1)) {
    if (response->trainers_size() == size) {
      response->set_next_page_token(last);
      break;
    }
    *response->add_trainers() = Describe(trainer, /*with_vocabulary=*/false);
    last = trainer.id;
  }
  return absl::OkStatus();
}

class TrainersService final : public v1::Trainers::CallbackService {
 public:
  explicit TrainersService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* CreateTrainer(
      CallbackServerContext* context, const v1::CreateTrainerRequest* request,
      v1::Trainer* response) override {
    return Work(context, [this, request, response](const CallControl&) {
      return server::CreateTrainer(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* GetTrainer(CallbackServerContext* context,
                                       const v1::GetTrainerRequest* request,
                                       v1::Trainer* response) override {
    return ReplyNow(context, [&] {
      return server::GetTrainer(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* ListTrainers(
      CallbackServerContext* context, const v1::ListTrainersRequest* request,
      v1::ListTrainersResponse* response) override {
    return ReplyNow(context, [&] {
      return server::ListTrainers(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* DeleteTrainer(
      CallbackServerContext* context, const v1::DeleteTrainerRequest* request,
      Empty*) override {
    return Work(context, [this, request](const CallControl&) -> absl::Status {
      ASSIGN_OR_RETURN(const std::string id, IdOf(request->name()));
      return engine_.trainers->Delete(id);
    });
  }

  grpc::ServerUnaryReactor* Step(CallbackServerContext* context,
                                 const v1::StepRequest* request,
                                 v1::StepResponse* response) override {
    return Work(context, [this, request, response](const CallControl& control) {
      return server::Step(engine_, *request, control, response);
    });
  }

  grpc::ServerUnaryReactor* SaveTrainer(
      CallbackServerContext* context, const v1::SaveTrainerRequest* request,
      v1::TrainerCheckpoint* response) override {
    return Work(context, [this, request, response](const CallControl&) {
      return server::SaveTrainer(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* ListTrainerCheckpoints(
      CallbackServerContext* context,
      const v1::ListTrainerCheckpointsRequest* request,
      v1::ListTrainerCheckpointsResponse* response) override {
    return Work(context, [this, request, response](const CallControl&) {
      return server::ListTrainerCheckpoints(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* LoadTrainer(CallbackServerContext* context,
                                        const v1::LoadTrainerRequest* request,
                                        v1::Trainer* response) override {
    return Work(context, [this, request, response](const CallControl&) {
      return server::LoadTrainer(engine_, *request, response);
    });
  }

  grpc::ServerUnaryReactor* PublishTrainer(
      CallbackServerContext* context, const v1::PublishTrainerRequest* request,
      v1::PublishTrainerResponse* response) override {
    return Work(context, [this, request, response](const CallControl& control) {
      return server::PublishTrainer(engine_, *request, control, response);
    });
  }

 private:
  // Answered by a work thread.
  grpc::ServerUnaryReactor* Work(
      CallbackServerContext* context,
      std::function<absl::Status(const CallControl&)> work) {
    return ReplyByWork(engine_.calls, engine_.work, context, std::move(work));
  }

  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewTrainersService(Engine& engine) {
  return std::make_unique<TrainersService>(engine);
}

}  // namespace recurve::server
