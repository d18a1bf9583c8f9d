#include "server/services/model_versions.h"

#include "engine/serve/model_name.h"
#include "engine/serve/version_states.h"
#include "kernels/status.h"
#include "server/convert.h"

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

}  // namespace

v1::ModelVersion ToWire(const Engine& engine, const ModelVersion& version,
                        bool whole) {
  v1::ModelVersion wire = ToWire(version, /*with_vocabulary=*/whole);
  wire.set_state(ToWire(engine.versions->StateOf(version)));
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
                              v1::ModelVersion* response) {
  ASSIGN_OR_RETURN(const ModelHandle version,
                   engine.versions->Load(request.name()));
  *response = ToWire(engine, *version, /*whole=*/true);
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
