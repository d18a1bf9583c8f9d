#include "server/kserve/repository.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"
#include "server/kserve/models.h"

namespace recurve::server::kserve {
namespace {

using ModelIndex = inference::RepositoryIndexResponse::ModelIndex;

void SetState(VersionState state, ModelIndex& index) {
  switch (state) {
    case VersionState::kOnDemand:
    case VersionState::kLoaded:
      index.set_state("READY");
      break;
    case VersionState::kDraining:
      index.set_state("UNLOADING");
      index.set_reason("unloaded; sessions or requests still go on");
      break;
    case VersionState::kUnloaded:
      index.set_state("UNAVAILABLE");
      index.set_reason("unloaded");
      break;
  }
}

ModelIndex IndexOf(const ModelVersion& version, const VersionStates& states) {
  ModelIndex index;
  index.set_name(version.model_id);
  index.set_version(absl::StrCat(version.number));
  SetState(states.StateOf(version), index);
  return index;
}

}  // namespace

inference::RepositoryIndexResponse IndexOf(
    const Registry& registry, const VersionStates& states,
    const inference::RepositoryIndexRequest& request) {
  inference::RepositoryIndexResponse response;
  for (const ModelHandle& version : AllVersions(registry)) {
    ModelIndex index = IndexOf(*version, states);
    if (request.ready() && index.state() != "READY") continue;
    *response.add_models() = std::move(index);
  }
  return response;
}

absl::Status Load(VersionStates& states,
                  const inference::RepositoryModelLoadRequest& request) {
  for (const auto& [name, value] : request.parameters()) {
    return absl::UnimplementedError(
        absl::StrCat("parameters: ", QuotedName(name),
                     " cannot be given; a model is served as it was published, "
                     "and another one is another version"));
  }
  return FindVersion(request.model_name(), /*version=*/"",
                     [&](absl::string_view name) { return states.Load(name); })
      .status();
}

absl::Status Unload(VersionStates& states,
                    const inference::RepositoryModelUnloadRequest& request) {
  return FindVersion(
             request.model_name(), /*version=*/"",
             [&](absl::string_view name) { return states.Unload(name); })
      .status();
}

}  // namespace recurve::server::kserve
