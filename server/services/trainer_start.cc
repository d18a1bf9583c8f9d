#include "server/services/trainer_start.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/train/training_run.h"
#include "kernels/status.h"
#include "server/convert.h"
#include "server/resource_name.h"

namespace recurve::server {
namespace {

absl::StatusOr<TrainerStart> StartFromSpec(Engine& engine,
                                           const v1::TrainSpec& spec) {
  ASSIGN_OR_RETURN(TrainingRun run,
                   PrepareTrainingRun(spec, *engine.datasets, engine.models,
                                      engine.config.max_parameters()));
  TrainerStart start;
  start.origin.model_name = spec.model();
  start.origin.model = std::move(run.start.model);
  start.origin.vocabulary = std::move(run.start.vocabulary);
  start.origin.config = spec.trainer();
  start.parameters = std::move(run.start.parameters);
  return start;
}

absl::StatusOr<TrainerStart> StartFromConfig(
    const Engine& engine, const v1::CreateTrainerRequest& request) {
  TrainerStart start;
  start.origin.model_name = request.model();
  start.origin.vocabulary = ToVector(request.vocabulary());
  start.origin.config = request.config();
  ASSIGN_OR_RETURN(start.origin.model, Model::Create(request.model_config()));
  RETURN_IF_ERROR(engine.CheckSize(*start.origin.model));
  start.parameters =
      InitializeParameters(*start.origin.model, request.config().seed());
  return start;
}

absl::StatusOr<TrainerStart> StartFromVersion(
    Engine& engine, const v1::CreateTrainerRequest& request) {
  if (request.vocabulary_size() > 0) {
    return absl::InvalidArgumentError(
        "vocabulary: goes with model_config; a version has its own");
  }
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.registry->Get(request.from_version().empty()
                                            ? request.model()
                                            : request.from_version()));
  ASSIGN_OR_RETURN(const auto parameters, version->Parameters());
  TrainerStart start;
  start.origin.model_name = request.model().empty()
                                ? absl::StrCat("models/", version->model_id)
                                : request.model();
  start.origin.model = version->model;
  start.origin.vocabulary = version->vocabulary;
  start.origin.names = version->names;
  start.origin.config = request.config();
  start.parameters = *parameters;
  return start;
}

// Of what each checkpoint of the trainer repeats; fields that nobody knows
// count too. A vocabulary may need more: the limit of messages is its own.
constexpr size_t kMaxConfigBytes = size_t{1} << 18;

absl::Status CheckBytes(absl::string_view field,
                        const google::protobuf::Message& config) {
  const size_t bytes = config.ByteSizeLong();
  if (bytes <= kMaxConfigBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": has ", bytes, " bytes, the limit is ", kMaxConfigBytes));
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
  if (request.save_every_calls() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("save_every_calls: is ", request.save_every_calls(),
                     ", must be 1 or more, or 0 for from time to time"));
  }
  RETURN_IF_ERROR(CheckBytes("config", request.config()));
  RETURN_IF_ERROR(CheckBytes("model_config", request.model_config()));
  // Where PublishTrainer will put versions must be a name then already.
  if (request.has_model_config() || !request.model().empty()) {
    return ParseName(request.model(), "models", "model").status();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TrainerStart> StartOf(Engine& engine,
                                     const v1::CreateTrainerRequest& request) {
  RETURN_IF_ERROR(CheckRequest(request));
  ASSIGN_OR_RETURN(TrainerStart start,
                   request.has_spec() ? StartFromSpec(engine, request.spec())
                   : request.has_model_config()
                       ? StartFromConfig(engine, request)
                       : StartFromVersion(engine, request));
  start.origin.save_every_calls = request.save_every_calls();
  return start;
}

}  // namespace recurve::server
