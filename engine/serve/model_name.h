// The names of models, their versions and their aliases.
#ifndef RECURVE_ENGINE_SERVE_MODEL_NAME_H_
#define RECURVE_ENGINE_SERVE_MODEL_NAME_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recurve {

// models/ID, models/ID/versions/N or models/ID/aliases/ALIAS.
struct ModelName {
  std::string id;
  int64_t number = 0;  // 0: no version is named
  std::string alias;   // empty: no alias is named

  bool names_model() const { return number == 0 && alias.empty(); }
};

// InvalidArgument says what a name looks like.
absl::StatusOr<ModelName> ParseModelName(absl::string_view name);
// The same for a name of one kind alone.
absl::StatusOr<std::string> ParseModelOnly(absl::string_view name);  // the id
absl::StatusOr<ModelName> ParseVersionOnly(absl::string_view name);
absl::StatusOr<ModelName> ParseAliasOnly(absl::string_view name);

std::string NameOfModel(absl::string_view id);
std::string NameOfVersion(absl::string_view id, int64_t number);
std::string NameOfAlias(absl::string_view id, absl::string_view alias);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_MODEL_NAME_H_
