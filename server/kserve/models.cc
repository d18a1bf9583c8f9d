#include "server/kserve/models.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/resource_id.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"

namespace recurve::server::kserve {
namespace {

absl::Status CheckName(const std::string& name, absl::string_view field) {
  if (CheckResourceId(name, field).ok()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(field, ": there is no ", QuotedName(name)));
}

}  // namespace

absl::StatusOr<std::string> VersionName(const std::string& model,
                                        const std::string& version) {
  RETURN_IF_ERROR(CheckName(model, "model_name"));
  const std::string name = absl::StrCat("models/", model);
  if (version.empty()) return name;
  RETURN_IF_ERROR(CheckName(version, "model_version"));
  const bool number =
      std::all_of(version.begin(), version.end(), absl::ascii_isdigit);
  return absl::StrCat(name, number ? "/versions/" : "/aliases/", version);
}

absl::StatusOr<ModelHandle> FindVersion(
    const std::string& model, const std::string& version,
    const std::function<absl::StatusOr<ModelHandle>(absl::string_view)>& find) {
  ASSIGN_OR_RETURN(const std::string name, VersionName(model, version));
  auto handle = find(name);
  if (!absl::IsInvalidArgument(handle.status())) return handle;
  return absl::NotFoundError(absl::StrCat("there is no ", name));
}

absl::StatusOr<std::vector<ModelHandle>> VersionsOf(const Registry& registry,
                                                    const std::string& model) {
  return registry.ListVersions(absl::StrCat("models/", model), /*after=*/0,
                               std::numeric_limits<int64_t>::max());
}

std::vector<ModelHandle> AllVersions(const Registry& registry) {
  std::vector<ModelHandle> all;
  for (const ModelSummary& summary : registry.ListModels(
           /*after=*/"", std::numeric_limits<int64_t>::max())) {
    const auto versions = VersionsOf(
        registry, std::string(absl::StripPrefix(summary.name, "models/")));
    if (!versions.ok()) continue;  // deleted meanwhile
    all.insert(all.end(), versions->begin(), versions->end());
  }
  return all;
}

}  // namespace recurve::server::kserve
