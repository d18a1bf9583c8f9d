#include "client/cli/model_lookup.h"

#include <utility>

#include "absl/strings/match.h"
#include "client/cli/session.h"

namespace recurve::cli {

absl::StatusOr<v1::ModelVersion> FindModel(Client& client,
                                           const std::string& name) {
  if (!absl::StartsWith(name, "trainers/")) {
    return client.GetModelVersion(ResourceName("models", name));
  }
  auto trainer = client.GetTrainer(name);
  if (!trainer.ok()) return trainer.status();
  v1::ModelVersion version;
  version.set_name(trainer->name());
  *version.mutable_config() = std::move(*trainer->mutable_model_config());
  *version.mutable_vocabulary() = std::move(*trainer->mutable_vocabulary());
  return version;
}

}  // namespace recurve::cli
