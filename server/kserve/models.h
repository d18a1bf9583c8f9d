// Models by the protocol's names and versions.
#ifndef RECURVE_SERVER_KSERVE_MODELS_H_
#define RECURVE_SERVER_KSERVE_MODELS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serve/model_version.h"
#include "engine/serve/registry.h"

namespace recurve::server::kserve {

// The name that a version of a model has elsewhere: `models/ID/versions/N`.
// `model` is an ID; `version` a number, an alias, or empty for the newest.
// NotFound for names that no model can have.
absl::StatusOr<std::string> VersionName(const std::string& model,
                                        const std::string& version);

// What `find`, Registry::Get or its like, makes of that name. Its
// InvalidArgument, for a name that nothing can have, becomes NotFound.
absl::StatusOr<ModelHandle> FindVersion(
    const std::string& model, const std::string& version,
    const std::function<absl::StatusOr<ModelHandle>(absl::string_view)>& find);

// Ascending. NotFound.
absl::StatusOr<std::vector<ModelHandle>> VersionsOf(const Registry& registry,
                                                    const std::string& model);

// Of all models.
std::vector<ModelHandle> AllVersions(const Registry& registry);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_MODELS_H_
