#include "engine/serve/registry.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "engine/base/directory.h"
#include "engine/base/file_calls.h"
#include "engine/base/resource_id.h"
#include "engine/data/vocabulary.h"
#include "engine/model/safetensors.h"
#include "engine/serve/version_files.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// --- Names ---

std::string ModelName(absl::string_view id) {
  return absl::StrCat("models/", id);
}

std::string VersionName(absl::string_view id, int64_t number) {
  return absl::StrCat("models/", id, "/versions/", number);
}

struct ParsedName {
  std::string id;
  int64_t number = 0;  // 0: the newest
};

absl::StatusOr<ParsedName> ParseName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  ParsedName parsed;
  const bool model = parts.size() == 2 && parts[0] == "models";
  const bool version =
      parts.size() == 4 && parts[0] == "models" && parts[2] == "versions" &&
      absl::SimpleAtoi(parts[3], &parsed.number) && parsed.number > 0 &&
      parts[3] == absl::StrCat(parsed.number);
  if (!model && !version) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)),
                     "\" is not the name of a model; write models/ID or "
                     "models/ID/versions/N"));
  }
  RETURN_IF_ERROR(CheckResourceId(parts[1], "model id"));
  parsed.id = std::string(parts[1]);
  return parsed;
}

absl::Status NoSuchModel(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("there is no ", ModelName(id)));
}

// --- Contents ---

absl::Status CheckVocabulary(const Model& model,
                             const std::vector<std::string>& vocabulary) {
  if (vocabulary.empty()) return absl::OkStatus();
  const int64_t size = static_cast<int64_t>(vocabulary.size());
  if (size != model.vocabulary_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "vocabulary: has ", size, " tokens, the model's input takes ",
        model.vocabulary_size()));
  }
  return Vocabulary::Create(vocabulary).status();
}

absl::Status CheckContents(const VersionContents& contents) {
  const int64_t size = static_cast<int64_t>(contents.parameters.size());
  const ParameterLayout& layout = contents.model->parameters();
  if (size != layout.buffer_size()) {
    return absl::InvalidArgumentError(absl::StrCat("parameters: ", size,
                                                   " numbers, the model has ",
                                                   layout.buffer_size()));
  }
  for (const Parameter& parameter : layout.parameters()) {
    const float* begin = contents.parameters.data() + parameter.offset;
    if (!std::all_of(begin, begin + parameter.count(),
                     [](float x) { return std::isfinite(x); })) {
      return absl::FailedPreconditionError(
          absl::StrCat("a number of ", parameter.name, " is NaN or infinite"));
    }
  }
  return CheckVocabulary(*contents.model, contents.vocabulary);
}

bool SameConfig(const Model& a, const Model& b) {
  return a.config().SerializeAsString() == b.config().SerializeAsString();
}

}  // namespace

// The versions of one model. Changes to it are made under `change`, which
// covers the file work; `versions` and `deleted` change under the registry's
// lock as well, and may be read under either.
struct Registry::Entry {
  absl::Mutex change ABSL_ACQUIRED_BEFORE(mutex_);
  Versions versions;
  bool deleted = false;  // find it again

  // Null if the newest cannot be read or there is none.
  ModelHandle newest() const {
    return versions.empty() || !versions.rbegin()->second.ok()
               ? nullptr
               : *versions.rbegin()->second;
  }
  ModelHandle OfRequest(absl::string_view request_id) const {
    if (request_id.empty()) return nullptr;
    for (const auto& [number, version] : versions) {
      if (version.ok() && (*version)->request_id == request_id) return *version;
    }
    return nullptr;
  }
};

Registry::Registry(std::string directory) : directory_(std::move(directory)) {}
Registry::~Registry() = default;

// --- Opening ---

absl::StatusOr<std::unique_ptr<Registry>> Registry::Open(
    const std::string& data_dir) {
  auto registry = std::unique_ptr<Registry>(
      new Registry(absl::StrCat(data_dir, "/models")));
  RETURN_IF_ERROR(registry->Load());
  return registry;
}

namespace {

absl::StatusOr<ModelHandle> LoadVersion(const std::string& directory,
                                        const std::string& id, int64_t number) {
  ASSIGN_OR_RETURN(auto version, ReadVersionFiles(directory));
  version->name = VersionName(id, number);
  version->model_id = id;
  version->number = number;
  return ModelHandle(std::move(version));
}

// What is in the folder; nothing aside, and no name that may not last.
absl::StatusOr<std::vector<std::string>> SweepAndList(const std::string& path) {
  SweepAside(path);
  RETURN_IF_ERROR(SyncDirectory(path));
  return ListDirectory(path);
}

}  // namespace

absl::Status Registry::Load() {
  RETURN_IF_ERROR(CreateDirectories(directory_));
  ASSIGN_OR_RETURN(const auto ids, SweepAndList(directory_));
  for (const std::string& id : ids) {
    if (!CheckResourceId(id, "folder").ok()) continue;
    // A crash may have left a model's folder without its first version.
    if (!std::filesystem::is_directory(VersionsFolder(id))) continue;
    ASSIGN_OR_RETURN(const auto numbers, SweepAndList(VersionsFolder(id)));
    auto entry = std::make_shared<Entry>();
    for (const std::string& text : numbers) {
      int64_t number = 0;
      if (!absl::SimpleAtoi(text, &number) || number <= 0) continue;
      entry->versions.emplace(
          number, LoadVersion(VersionFolder(id, number), id, number));
    }
    if (entry->versions.empty()) {
      RemoveEmptyFolders(id);
      continue;
    }
    absl::MutexLock lock(&mutex_);
    models_.emplace(id, std::move(entry));
  }
  return absl::OkStatus();
}

void Registry::RemoveEmptyFolders(absl::string_view id) const {
  file_calls().Rmdir(VersionsFolder(id).c_str());
  file_calls().Rmdir(ModelFolder(id).c_str());
}

std::string Registry::ModelFolder(absl::string_view id) const {
  return absl::StrCat(directory_, "/", id);
}
std::string Registry::VersionsFolder(absl::string_view id) const {
  return absl::StrCat(ModelFolder(id), "/versions");
}
std::string Registry::VersionFolder(absl::string_view id,
                                    int64_t number) const {
  return absl::StrCat(VersionsFolder(id), "/", number);
}

// --- Adding ---

namespace {

// All of a version but its files. Takes what `contents` has but the weights.
std::shared_ptr<ModelVersion> MakeVersion(const std::string& model_id,
                                          int64_t number,
                                          const ModelHandle& newest,
                                          VersionContents& contents) {
  auto version = std::make_shared<ModelVersion>();
  version->model_id = model_id;
  version->number = number;
  version->name = VersionName(model_id, number);
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
  return version;
}

// Writes the version to the folder `place`: on disk for good, or, after an
// error, not at all.
absl::Status Store(const std::string& place, const ParameterBuffer& parameters,
                   ModelVersion& version) {
  RETURN_IF_ERROR(CreateDirectories(DirectoryOf(place)));
  ASSIGN_OR_RETURN(AsideDirectory aside, AsideDirectory::Create(place));
  version.directory = aside.path();
  RETURN_IF_ERROR(WriteVersionFiles(parameters, version));
  version.directory = place;
  return aside.Publish();
}

}  // namespace

absl::StatusOr<ModelHandle> Registry::Create(const std::string& model_id,
                                             VersionContents contents) {
  return AddVersion(model_id, std::move(contents), /*must_be_new=*/true);
}

absl::StatusOr<ModelHandle> Registry::Publish(const std::string& model_id,
                                              VersionContents contents) {
  return AddVersion(model_id, std::move(contents), /*must_be_new=*/false);
}

namespace {

// The file's name is the server's own and says nothing to a client.
absl::Status WithoutPath(const absl::Status& status, absl::string_view path) {
  return absl::Status(
      status.code(),
      absl::StripPrefix(status.message(), absl::StrCat(path, ": ")));
}

}  // namespace

absl::StatusOr<ModelHandle> Registry::Import(const std::string& model_id,
                                             const ImportContents& contents) {
  RETURN_IF_ERROR(CheckResourceId(model_id, "model_id"));
  if (ModelHandle done = FindRequest(model_id, contents.request_id)) {
    return done;
  }
  VersionContents version;
  ASSIGN_OR_RETURN(version.model, Model::Create(contents.config));
  RETURN_IF_ERROR(CheckVocabulary(*version.model, contents.vocabulary));
  const absl::StatusOr<Safetensors> file = Safetensors::Open(contents.path);
  if (!file.ok()) return WithoutPath(file.status(), contents.path);
  ASSIGN_OR_RETURN(
      ImportedModel imported,
      ImportLibrary(*version.model, file->tensors(), contents.options));
  version.parameters = std::move(imported.parameters);
  version.names = std::move(imported.names);
  version.vocabulary = contents.vocabulary;
  version.source = "imported";
  version.request_id = contents.request_id;
  return Publish(model_id, std::move(version));
}

absl::StatusOr<ModelHandle> Registry::AddVersion(const std::string& model_id,
                                                 VersionContents contents,
                                                 bool must_be_new) {
  RETURN_IF_ERROR(CheckResourceId(model_id, "model_id"));
  RETURN_IF_ERROR(CheckContents(contents));
  while (true) {
    const std::shared_ptr<Entry> entry = FindOrAdd(model_id);
    absl::MutexLock change(&entry->change);
    if (entry->deleted) continue;
    auto version = AddTo(*entry, model_id, contents, must_be_new);
    if (entry->versions.empty()) {
      RemoveEmptyFolders(model_id);
      absl::MutexLock lock(&mutex_);
      entry->deleted = true;
      models_.erase(model_id);
    }
    return version;
  }
}

absl::StatusOr<ModelHandle> Registry::AddTo(Entry& entry,
                                            const std::string& model_id,
                                            VersionContents& contents,
                                            bool must_be_new) {
  if (ModelHandle done = entry.OfRequest(contents.request_id)) return done;
  if (must_be_new && !entry.versions.empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat(ModelName(model_id), " already exists"));
  }
  const int64_t number =
      entry.versions.empty() ? 1 : entry.versions.rbegin()->first + 1;
  auto version = MakeVersion(model_id, number, entry.newest(), contents);
  RETURN_IF_ERROR(
      Store(VersionFolder(model_id, number), contents.parameters, *version));
  absl::MutexLock lock(&mutex_);
  entry.versions.emplace(number, version);
  return ModelHandle(std::move(version));
}

// --- Looking ---

std::shared_ptr<Registry::Entry> Registry::Find(absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = models_.find(id);
  return it == models_.end() || it->second->versions.empty() ? nullptr
                                                             : it->second;
}

std::shared_ptr<Registry::Entry> Registry::FindOrAdd(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Entry>& entry = models_[id];
  if (entry == nullptr) entry = std::make_shared<Entry>();
  return entry;
}

absl::StatusOr<ModelHandle> Registry::Get(absl::string_view name) const {
  ASSIGN_OR_RETURN(const ParsedName parsed, ParseName(name));
  const std::shared_ptr<Entry> entry = Find(parsed.id);
  if (entry == nullptr) return NoSuchModel(parsed.id);
  absl::MutexLock lock(&mutex_);
  if (parsed.number == 0) return entry->versions.rbegin()->second;
  const auto it = entry->versions.find(parsed.number);
  if (it != entry->versions.end()) return it->second;
  return absl::NotFoundError(absl::StrCat(
      "there is no ", name, "; the newest version of ", ModelName(parsed.id),
      " is ", entry->versions.rbegin()->first));
}

ModelHandle Registry::FindRequest(absl::string_view model_id,
                                  absl::string_view request_id) const {
  const std::shared_ptr<Entry> entry = Find(model_id);
  if (entry == nullptr) return nullptr;
  absl::MutexLock lock(&mutex_);
  return entry->OfRequest(request_id);
}

namespace {

template <typename Versions>
ModelSummary Summarize(const std::string& id, const Versions& versions) {
  ModelSummary summary;
  summary.name = ModelName(id);
  summary.latest_version = VersionName(id, versions.rbegin()->first);
  summary.version_count = static_cast<int64_t>(versions.size());
  summary.create_time = absl::InfinitePast();
  for (const auto& [number, version] : versions) {
    if (!version.ok()) continue;
    summary.create_time = (*version)->create_time;
    break;
  }
  return summary;
}

// "models/ID" -> ID.
absl::StatusOr<std::string> ParseModelName(absl::string_view name) {
  ASSIGN_OR_RETURN(ParsedName parsed, ParseName(name));
  if (parsed.number == 0) return parsed.id;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", name, "\" names a version; a model is asked for: models/",
      parsed.id));
}

}  // namespace

absl::StatusOr<ModelSummary> Registry::Describe(
    absl::string_view model_name) const {
  ASSIGN_OR_RETURN(const std::string id, ParseModelName(model_name));
  const std::shared_ptr<Entry> entry = Find(id);
  if (entry == nullptr) return NoSuchModel(id);
  absl::MutexLock lock(&mutex_);
  return Summarize(id, entry->versions);
}

std::vector<ModelSummary> Registry::ListModels(absl::string_view after,
                                               int64_t limit) const {
  std::vector<ModelSummary> summaries;
  absl::MutexLock lock(&mutex_);
  for (auto it = models_.upper_bound(after);
       it != models_.end() && static_cast<int64_t>(summaries.size()) < limit;
       ++it) {
    if (it->second->versions.empty()) continue;
    summaries.push_back(Summarize(it->first, it->second->versions));
  }
  return summaries;
}

absl::StatusOr<std::vector<ModelHandle>> Registry::ListVersions(
    absl::string_view model_name, int64_t after, int64_t limit) const {
  ASSIGN_OR_RETURN(const std::string id, ParseModelName(model_name));
  const std::shared_ptr<Entry> entry = Find(id);
  if (entry == nullptr) return NoSuchModel(id);
  std::vector<ModelHandle> versions;
  absl::MutexLock lock(&mutex_);
  for (auto it = entry->versions.upper_bound(after);
       it != entry->versions.end() &&
       static_cast<int64_t>(versions.size()) < limit;
       ++it) {
    if (it->second.ok()) versions.push_back(*it->second);
  }
  return versions;
}

std::vector<absl::Status> Registry::Unreadable() const {
  std::vector<absl::Status> errors;
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : models_) {
    for (const auto& [number, version] : entry->versions) {
      if (!version.ok()) errors.push_back(version.status());
    }
  }
  return errors;
}

// --- Deleting ---

void Registry::OnDelete(std::function<void(const ModelVersion&)> callback) {
  on_delete_ = std::move(callback);
}

absl::Status Registry::Delete(absl::string_view model_name) {
  ASSIGN_OR_RETURN(const std::string id, ParseModelName(model_name));
  const std::shared_ptr<Entry> entry = Find(id);
  if (entry == nullptr) return NoSuchModel(id);
  absl::MutexLock change(&entry->change);
  if (entry->deleted) return NoSuchModel(id);
  // Before the files go, so that whoever misses them knows why.
  const auto mark = [&](bool deleted) {
    for (const auto& [number, version] : entry->versions) {
      if (version.ok()) (*version)->MarkDeleted(deleted);
    }
  };
  mark(true);
  const auto aside = MoveAside(ModelFolder(id));
  if (!aside.ok()) {
    mark(false);
    return aside.status();
  }
  {
    absl::MutexLock lock(&mutex_);
    entry->deleted = true;
    models_.erase(id);
  }
  for (const auto& [number, version] : entry->versions) {
    if (version.ok() && on_delete_) on_delete_(**version);
  }
  RemoveTree(*aside).IgnoreError();  // swept at the next start
  return absl::OkStatus();
}

}  // namespace recurve
