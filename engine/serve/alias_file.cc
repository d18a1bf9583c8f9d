#include "engine/serve/alias_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/file.h"
#include "engine/base/sha256.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"

namespace recurve {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxBytes = 1 << 20;

absl::Status Damaged(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(
      path, ": ", why, "; the model's aliases are lost and must be set again"));
}

// {"aliases": {"stable": 3}, "format": 1, "sha256": of the aliases as written}.
std::string ToText(const Aliases& aliases) {
  const Json map = aliases;
  const Json file = {
      {"format", 1}, {"aliases", map}, {"sha256", Sha256Hex(map.dump())}};
  return file.dump(2);
}

// Throws Json::exception for what is not such a file.
absl::StatusOr<Aliases> FromText(const std::string& path,
                                 const std::string& text) {
  const Json file = Json::parse(text);
  if (file.at("format").get<int>() != 1) {
    return Damaged(path, "is of a format that this server does not know");
  }
  const Json& map = file.at("aliases");
  if (Sha256Hex(map.dump()) != file.at("sha256").get<std::string>()) {
    return Damaged(path, "the checksum is not the one recorded");
  }
  return map.get<Aliases>();
}

absl::Status Write(const std::string& path, const Aliases& aliases) {
  const std::string text = ToText(aliases);
  const absl::string_view pieces[] = {text};
  return WriteFileAtomically(path, pieces);
}

}  // namespace

absl::StatusOr<Aliases> ReadAliases(const std::string& path) {
  const auto text = ReadFile(path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return Aliases();
  if (!text.ok()) return Damaged(path, text.status().message());
  try {
    return FromText(path, *text);
  } catch (const Json::exception& e) {
    return Damaged(path, e.what());
  }
}

absl::Status ReplaceAliases(const std::string& path, const Aliases& before,
                            const Aliases& after) {
  const absl::Status written = Write(path, after);
  if (!written.ok()) Write(path, before).IgnoreError();
  return written;
}

}  // namespace recurve
