#include "server/kserve/repository.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/kserve/models.h"

namespace recurve::server::kserve {

inference::RepositoryIndexResponse IndexOf(const Registry& registry) {
  inference::RepositoryIndexResponse index;
  for (const ModelSummary& summary : registry.ListModels(
           /*after=*/"", std::numeric_limits<int64_t>::max())) {
    const std::string id(absl::StripPrefix(summary.name, "models/"));
    const auto versions = VersionNumbers(registry, id);
    if (!versions.ok()) continue;  // deleted meanwhile
    for (const int64_t number : *versions) {
      auto& model = *index.add_models();
      model.set_name(id);
      model.set_version(absl::StrCat(number));
      model.set_state("READY");
    }
  }
  return index;
}

}  // namespace recurve::server::kserve
