#include "engine/serve/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/directory.h"
#include "engine/base/file_calls.h"
#include "engine/model/library_keys.h"
#include "engine/serve/model_name.h"
#include "engine/serve/version_files.h"
#include "kernels/status.h"

namespace recurve {
namespace {

bool SameConfig(const Model& a, const Model& b) {
  return a.config().SerializeAsString() == b.config().SerializeAsString();
}

absl::StatusOr<ModelHandle> LoadVersion(const std::string& directory,
                                        const std::string& id, int64_t number) {
  ASSIGN_OR_RETURN(auto version, ReadVersionFiles(directory));
  version->name = NameOfVersion(id, number);
  version->model_id = id;
  version->number = number;
  return ModelHandle(std::move(version));
}

// The names in the folder that are numbers; others are no business of ours.
absl::StatusOr<std::vector<int64_t>> NumbersIn(const std::string& path) {
  ASSIGN_OR_RETURN(const auto names, SweepAndList(path));
  std::vector<int64_t> numbers;
  for (const std::string& name : names) {
    int64_t number = 0;
    if (absl::SimpleAtoi(name, &number) && number > 0) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SweepAndList(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return std::vector<std::string>();
  SweepAside(path);
  RETURN_IF_ERROR(SyncDirectory(path));  // no name that may not last
  return ListDirectory(path);
}

ModelFolder::ModelFolder(std::string path, std::string id)
    : path_(std::move(path)), id_(std::move(id)) {}

std::string ModelFolder::alias_path() const {
  return absl::StrCat(path_, "/aliases.json");
}
std::string ModelFolder::versions_path() const {
  return absl::StrCat(path_, "/versions");
}
std::string ModelFolder::version_path(int64_t number) const {
  return absl::StrCat(versions_path(), "/", number);
}
std::string ModelFolder::deleted_path() const {
  return absl::StrCat(path_, "/deleted");
}
std::string ModelFolder::deleted_path(int64_t number) const {
  return absl::StrCat(deleted_path(), "/", number);
}

// --- The whole ---

absl::StatusOr<ModelFolder::Contents> ModelFolder::Load() const {
  Contents contents;
  RETURN_IF_ERROR(SweepAndList(path_).status());
  ASSIGN_OR_RETURN(contents.versions, LoadVersions());
  contents.aliases = ReadAliases(alias_path());
  ASSIGN_OR_RETURN(contents.last_number, LastDeleted());
  if (!contents.versions.empty()) {
    contents.last_number =
        std::max(contents.last_number, contents.versions.rbegin()->first);
  }
  return contents;
}

absl::StatusOr<Versions> ModelFolder::LoadVersions() const {
  ASSIGN_OR_RETURN(const auto numbers, NumbersIn(versions_path()));
  Versions versions;
  for (const int64_t number : numbers) {
    versions.emplace(number, LoadVersion(version_path(number), id_, number));
  }
  return versions;
}

absl::StatusOr<int64_t> ModelFolder::LastDeleted() const {
  ASSIGN_OR_RETURN(const auto numbers, NumbersIn(deleted_path()));
  return numbers.empty() ? 0
                         : *std::max_element(numbers.begin(), numbers.end());
}

void ModelFolder::RemoveIfEmpty() const {
  file_calls().Rmdir(versions_path().c_str());
  file_calls().Rmdir(path_.c_str());
}

absl::StatusOr<std::string> ModelFolder::MoveAside() const {
  return recurve::MoveAside(path_);
}

// --- Versions ---

absl::StatusOr<ModelHandle> ModelFolder::Store(
    int64_t number, const ModelHandle& newest,
    VersionContents& contents) const {
  auto version = std::make_shared<ModelVersion>();
  version->model_id = id_;
  version->number = number;
  version->name = NameOfVersion(id_, number);
  version->model = contents.model;
  version->vocabulary = std::move(contents.vocabulary);
  version->source = std::move(contents.source);
  version->request_id = std::move(contents.request_id);
  version->create_time = absl::Now();
  if (contents.names.has_value()) {
    version->names = *std::move(contents.names);
  } else if (newest != nullptr && SameConfig(*newest->model, *contents.model)) {
    version->names = newest->names;
  } else {
    version->names = DefaultNames(*contents.model);
  }
  const std::string place = version_path(number);
  RETURN_IF_ERROR(CreateDirectories(versions_path()));
  ASSIGN_OR_RETURN(AsideDirectory aside, AsideDirectory::Create(place));
  version->directory = aside.path();
  RETURN_IF_ERROR(WriteVersionFiles(contents.parameters, *version));
  version->directory = place;
  RETURN_IF_ERROR(aside.Publish());
  return ModelHandle(std::move(version));
}

absl::StatusOr<std::string> ModelFolder::MoveVersionAside(
    int64_t number, bool keep_number) const {
  if (keep_number) RETURN_IF_ERROR(KeepNumber(number));
  return recurve::MoveAside(version_path(number));
}

// Before the version goes: a number that is both is the same as one that is
// there.
absl::Status ModelFolder::KeepNumber(int64_t number) const {
  ASSIGN_OR_RETURN(const int64_t before, LastDeleted());
  RETURN_IF_ERROR(CreateDirectories(deleted_path(number)));
  if (before > 0 && before < number) {
    file_calls().Rmdir(deleted_path(before).c_str());
  }
  return absl::OkStatus();
}

}  // namespace recurve
