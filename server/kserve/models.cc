#include "server/kserve/models.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/resource_id.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"

namespace recurve::server::kserve {

namespace {

// Names that no model can have are names that none has.
absl::Status CheckName(const std::string& name, absl::string_view field) {
  if (CheckResourceId(name, field).ok()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat(field, ": there is no ", QuotedName(name)));
}

}  // namespace

absl::StatusOr<ModelHandle> FindVersion(const Registry& registry,
                                        const std::string& model,
                                        const std::string& version) {
  RETURN_IF_ERROR(CheckName(model, "model_name"));
  std::string name = absl::StrCat("models/", model);
  if (!version.empty()) {
    RETURN_IF_ERROR(CheckName(version, "model_version"));
    const bool number =
        std::all_of(version.begin(), version.end(), absl::ascii_isdigit);
    absl::StrAppend(&name, number ? "/versions/" : "/aliases/", version);
  }
  auto handle = registry.Get(name);
  if (!absl::IsInvalidArgument(handle.status())) return handle;
  return absl::NotFoundError(absl::StrCat("there is no ", name));
}

absl::StatusOr<std::vector<int64_t>> VersionNumbers(const Registry& registry,
                                                    const std::string& model) {
  ASSIGN_OR_RETURN(
      const std::vector<ModelHandle> versions,
      registry.ListVersions(absl::StrCat("models/", model), /*after=*/0,
                            std::numeric_limits<int64_t>::max()));
  std::vector<int64_t> numbers;
  for (const ModelHandle& version : versions) {
    numbers.push_back(version->number);
  }
  return numbers;
}

}  // namespace recurve::server::kserve
