#include "engine/serve/model_name.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/resource_id.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status NotA(absl::string_view name, absl::string_view kind,
                  absl::string_view form) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)),
                   "\" is not the name of ", kind, "; write ", form));
}

bool ParseNumber(absl::string_view text, int64_t* number) {
  return absl::SimpleAtoi(text, number) && *number > 0 &&
         text == absl::StrCat(*number);
}

}  // namespace

absl::StatusOr<ModelName> ParseModelName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  const bool starts = parts.size() >= 2 && parts[0] == "models";
  ModelName parsed;
  const bool model = starts && parts.size() == 2;
  const bool version = starts && parts.size() == 4 && parts[2] == "versions" &&
                       ParseNumber(parts[3], &parsed.number);
  const bool alias = starts && parts.size() == 4 && parts[2] == "aliases";
  if (!model && !version && !alias) {
    return NotA(name, "a model",
                "models/ID, models/ID/versions/N or models/ID/aliases/ALIAS");
  }
  RETURN_IF_ERROR(CheckResourceId(parts[1], "model id"));
  parsed.id = std::string(parts[1]);
  if (alias) {
    RETURN_IF_ERROR(CheckResourceId(parts[3], "alias"));
    parsed.alias = std::string(parts[3]);
  }
  return parsed;
}

absl::StatusOr<std::string> ParseModelOnly(absl::string_view name) {
  ASSIGN_OR_RETURN(ModelName parsed, ParseModelName(name));
  if (parsed.names_model()) return std::move(parsed.id);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", name, "\" names a version; a model is asked for: models/",
      parsed.id));
}

absl::StatusOr<ModelName> ParseVersionOnly(absl::string_view name) {
  ASSIGN_OR_RETURN(ModelName parsed, ParseModelName(name));
  if (parsed.number > 0) return parsed;
  return NotA(name, "a version", "models/ID/versions/N");
}

absl::StatusOr<ModelName> ParseAliasOnly(absl::string_view name) {
  ASSIGN_OR_RETURN(ModelName parsed, ParseModelName(name));
  if (!parsed.alias.empty()) return parsed;
  return NotA(name, "an alias", "models/ID/aliases/ALIAS");
}

std::string NameOfModel(absl::string_view id) {
  return absl::StrCat("models/", id);
}

std::string NameOfVersion(absl::string_view id, int64_t number) {
  return absl::StrCat("models/", id, "/versions/", number);
}

std::string NameOfAlias(absl::string_view id, absl::string_view alias) {
  return absl::StrCat("models/", id, "/aliases/", alias);
}

}  // namespace recurve
