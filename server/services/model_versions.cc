#include "server/services/model_versions.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/data/dataset.h"
#include "engine/serve/evaluator.h"
#include "engine/serve/held_out_evaluation.h"
#include "engine/serve/model_name.h"
#include "engine/serve/version_states.h"
#include "kernels/precision.h"
#include "kernels/status.h"
#include "server/convert.h"
#include "server/services/read_source.h"

namespace recurve::server {
namespace {

v1::ModelVersion::State ToWire(VersionState state) {
  switch (state) {
    case VersionState::kOnDemand:
      return v1::ModelVersion::ON_DEMAND;
    case VersionState::kLoaded:
      return v1::ModelVersion::LOADED;
    case VersionState::kDraining:
      return v1::ModelVersion::DRAINING;
    case VersionState::kUnloaded:
      return v1::ModelVersion::UNLOADED;
  }
  return v1::ModelVersion::STATE_UNSPECIFIED;
}

v1::Precision ToWire(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return v1::FLOAT32;
    case Precision::kBfloat16:
      return v1::BFLOAT16;
    case Precision::kInt8:
      return v1::INT8;
  }
  return v1::PRECISION_UNSPECIFIED;
}

absl::StatusOr<std::optional<Precision>> FromWire(v1::Precision precision) {
  switch (precision) {
    case v1::PRECISION_UNSPECIFIED:
      return std::nullopt;
    case v1::FLOAT32:
      return Precision::kFloat32;
    case v1::BFLOAT16:
      return Precision::kBfloat16;
    case v1::INT8:
      return Precision::kInt8;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("precision: ", precision,
                       " is none; FLOAT32, BFLOAT16 and INT8 are"));
  }
}

absl::StatusOr<v1::PrecisionAccuracy> MeasureAccuracy(
    const Engine& engine, const ModelVersion& version, Precision precision,
    const Dataset& data, const CallControl& control) {
  const TextOptions options = HeldOutOptions(*version.model, data);
  const auto evaluate = [&](Precision at) {
    return engine.evaluator.EvaluateDataset(version.At(at), data, options,
                                            control);
  };
  ASSIGN_OR_RETURN(const Evaluation exact, evaluate(Precision::kFloat32));
  ASSIGN_OR_RETURN(const Evaluation served, evaluate(precision));
  v1::PrecisionAccuracy accuracy;
  accuracy.set_float32_loss(exact.loss);
  accuracy.set_loss(served.loss);
  if (exact.loss != 0) {
    accuracy.set_relative_difference((served.loss - exact.loss) / exact.loss);
  }
  accuracy.set_weight(served.weight);
  return accuracy;
}

// Nothing if the request names no data.
absl::StatusOr<std::optional<v1::PrecisionAccuracy>> AccuracyOf(
    const Engine& engine, const v1::LoadModelVersionRequest& request,
    std::optional<Precision> precision, const CallControl& control) {
  if (!request.has_accuracy_source()) {
    if (!request.has_accuracy_format()) return std::nullopt;
    return absl::InvalidArgumentError(
        "accuracy_format: is of accuracy_source, which is not there");
  }
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.registry->Get(request.name()));
  const Precision at =
      precision.value_or(engine.versions->PrecisionOf(*version));
  RETURN_IF_ERROR(engine.loader.CheckFits(*version->At(at)));
  ASSIGN_OR_RETURN(const Dataset data,
                   ReadSource(engine, *version, request.accuracy_source(),
                              request.accuracy_format()));
  return MeasureAccuracy(engine, *version, at, data, control);
}

}  // namespace

v1::ModelVersion ToWire(const Engine& engine, const ModelVersion& version,
                        bool whole) {
  v1::ModelVersion wire = ToWire(version, /*with_vocabulary=*/whole);
  wire.set_state(ToWire(engine.versions->StateOf(version)));
  wire.set_precision(ToWire(engine.versions->PrecisionOf(version)));
  if (whole) wire.set_sessions(engine.sessions.CountOn(version));
  return wire;
}

absl::Status SetModelAlias(Engine& engine,
                           const v1::SetModelAliasRequest& request,
                           v1::Model* response) {
  RETURN_IF_ERROR(
      engine.registry->SetAlias(request.name(), request.model_version()));
  ASSIGN_OR_RETURN(const ModelName alias, ParseAliasOnly(request.name()));
  ASSIGN_OR_RETURN(const ModelSummary summary,
                   engine.registry->Describe(NameOfModel(alias.id)));
  *response = ToWire(summary);
  return absl::OkStatus();
}

absl::Status LoadModelVersion(Engine& engine,
                              const v1::LoadModelVersionRequest& request,
                              const CallControl& control,
                              v1::ModelVersion* response) {
  ASSIGN_OR_RETURN(const std::optional<Precision> precision,
                   FromWire(request.precision()));
  ASSIGN_OR_RETURN(auto accuracy,
                   AccuracyOf(engine, request, precision, control));
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.versions->Load(request.name(), precision));
  *response = ToWire(engine, *version, /*whole=*/true);
  if (accuracy.has_value()) {
    *response->mutable_accuracy() = *std::move(accuracy);
  }
  return absl::OkStatus();
}

absl::Status UnloadModelVersion(Engine& engine,
                                const v1::UnloadModelVersionRequest& request,
                                v1::ModelVersion* response) {
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.versions->Unload(request.name()));
  *response = ToWire(engine, *version, /*whole=*/true);
  return absl::OkStatus();
}

}  // namespace recurve::server
