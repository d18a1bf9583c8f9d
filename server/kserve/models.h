// Models by the protocol's names and versions.
#ifndef RECURVE_SERVER_KSERVE_MODELS_H_
#define RECURVE_SERVER_KSERVE_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/serve/model_version.h"
#include "engine/serve/registry.h"

namespace recurve::server::kserve {

// `model` is an id; `version` a number, an alias, or empty for the newest.
// NotFound; DataLoss for a version that cannot be read.
absl::StatusOr<ModelHandle> FindVersion(const Registry& registry,
                                        const std::string& model,
                                        const std::string& version);

// Ascending. NotFound.
absl::StatusOr<std::vector<int64_t>> VersionNumbers(const Registry& registry,
                                                    const std::string& model);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_MODELS_H_
