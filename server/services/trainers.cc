#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/resource_id.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/train/training_run.h"
#include "kernels/status.h"
#include "proto/recurve/v1/compute.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/request_strings.h"
#include "server/resource_name.h"
#include "server/services/services.h"

namespace recurve::server {
namespace {

using google::protobuf::Empty;
using grpc::CallbackServerContext;

v1::Trainer Describe(const TrainerEntry& entry) {
  v1::Trainer wire;
  wire.set_name(absl::StrCat("trainers/", entry.id));
  *wire.mutable_create_time() = ToWire(entry.create_time);
  wire.set_model(entry.model_name);
  *wire.mutable_model_config() = entry.model->config();
  *wire.mutable_config() = entry.trainer->config();
  wire.set_step(entry.step);
  return wire;
}

// --- What a trainer starts from ---

struct Start {
  TrainableModel model;
  v1::TrainerConfig config;
};

absl::StatusOr<Start> StartFromSpec(Engine& engine, const v1::TrainSpec& spec,
                                    TrainerEntry& entry) {
  ASSIGN_OR_RETURN(TrainingRun run,
                   PrepareTrainingRun(spec, *engine.datasets, engine.models,
                                      engine.config.max_parameters()));
  entry.model_name = spec.model();
  return Start{std::move(run.start), spec.trainer()};
}

absl::StatusOr<Start> StartFromConfig(const Engine& engine,
                                      const v1::CreateTrainerRequest& request,
                                      TrainerEntry& entry) {
  Start start;
  start.config = request.config();
  entry.model_name = request.model();
  start.model.vocabulary = ToVector(request.vocabulary());
  ASSIGN_OR_RETURN(start.model.model, Model::Create(request.model_config()));
  RETURN_IF_ERROR(engine.CheckSize(*start.model.model));
  start.model.parameters =
      InitializeParameters(*start.model.model, request.config().seed());
  return start;
}

absl::StatusOr<Start> StartFromVersion(Engine& engine,
                                       const v1::CreateTrainerRequest& request,
                                       TrainerEntry& entry) {
  if (request.vocabulary_size() > 0) {
    return absl::InvalidArgumentError(
        "vocabulary: goes with model_config; a version has its own");
  }
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.registry->Get(request.from_version().empty()
                                            ? request.model()
                                            : request.from_version()));
  ASSIGN_OR_RETURN(const auto parameters, version->Parameters());
  entry.model_name = request.model().empty()
                         ? absl::StrCat("models/", version->model_id)
                         : request.model();
  entry.names = version->names;
  return Start{{version->model, version->vocabulary, *parameters},
               request.config()};
}

absl::Status CheckRequest(const v1::CreateTrainerRequest& request) {
  if (request.has_spec() &&
      (!request.model().empty() || request.has_model_config() ||
       !request.from_version().empty() || request.has_config() ||
       request.vocabulary_size() > 0)) {
    return absl::InvalidArgumentError(
        "spec: says all that model, model_config, from_version, config and "
        "vocabulary do; send one or the other");
  }
  if (request.has_model_config() && !request.from_version().empty()) {
    return absl::InvalidArgumentError(
        "model_config, from_version: only one of them can be where the weights "
        "come from");
  }
  // Where PublishTrainer will put versions must be a name then already.
  if (request.has_model_config() || !request.model().empty()) {
    return ParseName(request.model(), "models", "model").status();
  }
  return absl::OkStatus();
}

absl::Status MakeTrainer(Engine& engine,
                         const v1::CreateTrainerRequest& request,
                         TrainerEntry& entry) {
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(
      Start start,
      request.has_spec() ? StartFromSpec(engine, request.spec(), entry)
      : request.has_model_config() ? StartFromConfig(engine, request, entry)
                                   : StartFromVersion(engine, request, entry));
  entry.model = start.model.model;
  entry.vocabulary = std::move(start.model.vocabulary);
  ASSIGN_OR_RETURN(
      entry.trainer,
      Trainer::Create(engine.devices, entry.model,
                      std::move(start.model.parameters), start.config));
  return absl::OkStatus();
}

absl::Status CreateTrainer(Engine& engine,
                           const v1::CreateTrainerRequest& request,
                           v1::Trainer* response) {
  RETURN_IF_ERROR(CheckStrings(request));
  const std::string id = IdOrRandom(request.trainer_id(), "trainer-");
  RETURN_IF_ERROR(CheckResourceId(id, "trainer_id"));
  ASSIGN_OR_RETURN(const auto entry,
                   engine.trainers.Create(
                       id, request.request_id(), [&](TrainerEntry& entry) {
                         return MakeTrainer(engine, request, entry);
                       }));
  *response = Describe(*entry);
  return absl::OkStatus();
}

// --- Calls on a trainer, one at a time ---

absl::StatusOr<std::shared_ptr<TrainerEntry>> Find(const Engine& engine,
                                                   const std::string& name) {
  ASSIGN_OR_RETURN(const std::string id, ParseName(name, "trainers", "name"));
  return engine.trainers.Get(id);
}

// Locks a trainer for as long as it lives, unless another call has it.
class TrainerLock {
 public:
  explicit TrainerLock(TrainerEntry& entry)
      : entry_(entry), held_(entry.busy.TryLock()) {}
  ~TrainerLock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (held_) entry_.busy.Unlock();
  }
  absl::Status status() const {
    if (held_) return absl::OkStatus();
    return absl::AbortedError(absl::StrCat(
        "another call on trainers/", entry_.id,
        " is running; calls on one trainer are made one after another"));
  }

 private:
  TrainerEntry& entry_;
  const bool held_;
};

absl::Status Step(Engine& engine, const v1::StepRequest& request,
                  const CallControl& control, v1::StepResponse* response) {
  ASSIGN_OR_RETURN(const auto entry, Find(engine, request.name()));
  ASSIGN_OR_RETURN(const SequenceBatch batch, FromWire(request.batch()));
  ASSIGN_OR_RETURN(const Targets targets, FromWire(request.targets()));
  const Model& model = *entry->model;
  RETURN_IF_ERROR(model.CheckBatch(batch, /*allow_empty_sequences=*/false));
  RETURN_IF_ERROR(model.CheckTargets(batch, targets));
  if (batch.num_rows() > engine.config.max_request_rows()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "batch: ", batch.num_rows(), " rows, the limit of one request is ",
        engine.config.max_request_rows()));
  }
  const TrainerLock lock(*entry);
  RETURN_IF_ERROR(lock.status());
  StepCall call;
  call.batch = &batch;
  call.targets = &targets;
  call.continue_streams = request.continue_streams();
  call.cancelled = control.cancelled.get();
  ASSIGN_OR_RETURN(const StepResult result, entry->trainer->Step(call));
  entry->step = result.step;
  *response = ToWire(result);
  return absl::OkStatus();
}

absl::Status PublishTrainer(Engine& engine,
                            const v1::PublishTrainerRequest& request,
                            v1::PublishTrainerResponse* response) {
  RETURN_IF_ERROR(CheckStrings(request));
  ASSIGN_OR_RETURN(const auto entry, Find(engine, request.name()));
  ASSIGN_OR_RETURN(const std::string id,
                   ParseName(entry->model_name, "models", "model"));
  VersionContents contents;
  contents.model = entry->model;
  {
    const TrainerLock lock(*entry);
    RETURN_IF_ERROR(lock.status());
    ASSIGN_OR_RETURN(contents.parameters, entry->trainer->Parameters());
  }
  contents.vocabulary = entry->vocabulary;
  contents.names = entry->names;
  contents.source = absl::StrCat("trainers/", entry->id);
  contents.request_id = request.request_id();
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.registry->Publish(id, std::move(contents)));
  response->set_model_version(version->name);
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
  for (const auto& entry :
       engine.trainers.List(request.page_token(), size + 1)) {
    if (response->trainers_size() == size) {
      response->set_next_page_token(last);
      break;
    }
    *response->add_trainers() = Describe(*entry);
    last = entry->id;
  }
  return absl::OkStatus();
}

class TrainersService final : public v1::Trainers::CallbackService {
 public:
  explicit TrainersService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* CreateTrainer(
      CallbackServerContext* context, const v1::CreateTrainerRequest* request,
      v1::Trainer* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl&) {
                         return server::CreateTrainer(engine_, *request,
                                                      response);
                       });
  }

  grpc::ServerUnaryReactor* GetTrainer(CallbackServerContext* context,
                                       const v1::GetTrainerRequest* request,
                                       v1::Trainer* response) override {
    auto entry = Find(engine_, request->name());
    if (entry.ok()) *response = Describe(**entry);
    return ReplyNow(context, entry.status());
  }

  grpc::ServerUnaryReactor* ListTrainers(
      CallbackServerContext* context, const v1::ListTrainersRequest* request,
      v1::ListTrainersResponse* response) override {
    return ReplyNow(context, server::ListTrainers(engine_, *request, response));
  }

  grpc::ServerUnaryReactor* DeleteTrainer(
      CallbackServerContext* context, const v1::DeleteTrainerRequest* request,
      Empty*) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request](const CallControl&) -> absl::Status {
                         ASSIGN_OR_RETURN(
                             const std::string id,
                             ParseName(request->name(), "trainers", "name"));
                         return engine_.trainers.Delete(id);
                       });
  }

  grpc::ServerUnaryReactor* Step(CallbackServerContext* context,
                                 const v1::StepRequest* request,
                                 v1::StepResponse* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl& control) {
                         return server::Step(engine_, *request, control,
                                             response);
                       });
  }

  grpc::ServerUnaryReactor* PublishTrainer(
      CallbackServerContext* context, const v1::PublishTrainerRequest* request,
      v1::PublishTrainerResponse* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl&) {
                         return server::PublishTrainer(engine_, *request,
                                                       response);
                       });
  }

 private:
  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewTrainersService(Engine& engine) {
  return std::make_unique<TrainersService>(engine);
}

}  // namespace recurve::server
