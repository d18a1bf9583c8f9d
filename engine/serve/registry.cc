#include "engine/serve/registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/directory.h"
#include "engine/base/resource_id.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status NoSuchModel(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("there is no ", NameOfModel(id)));
}

}  // namespace

// One model. Changes to it are made under `change`, which covers the file work;
// what is below changes under the registry's lock as well, and may be read
// under either.
struct Registry::Entry {
  explicit Entry(ModelFolder model_folder)
      : folder(std::move(model_folder)), aliases(Aliases()) {}

  const ModelFolder folder;
  absl::Mutex change ABSL_ACQUIRED_BEFORE(mutex_);
  Versions versions;
  absl::StatusOr<Aliases> aliases;
  int64_t last_number = 0;
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
  std::vector<std::string> AliasesOf(int64_t number) const {
    std::vector<std::string> names;
    if (!aliases.ok()) return names;
    for (const auto& [alias, target] : *aliases) {
      if (target == number) names.push_back(alias);
    }
    return names;
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

absl::Status Registry::Load() {
  RETURN_IF_ERROR(CreateDirectories(directory_));
  ASSIGN_OR_RETURN(const auto ids, SweepAndList(directory_));
  for (const std::string& id : ids) {
    if (!CheckResourceId(id, "folder").ok()) continue;
    auto entry = std::make_shared<Entry>(Folder(id));
    ASSIGN_OR_RETURN(ModelFolder::Contents contents, entry->folder.Load());
    // A crash may have left a model's folder without its first version.
    if (contents.versions.empty()) {
      entry->folder.RemoveIfEmpty();
      continue;
    }
    entry->versions = std::move(contents.versions);
    entry->aliases = std::move(contents.aliases);
    entry->last_number = contents.last_number;
    absl::MutexLock lock(&mutex_);
    models_.emplace(id, std::move(entry));
  }
  return absl::OkStatus();
}

ModelFolder Registry::Folder(const std::string& id) const {
  return ModelFolder(absl::StrCat(directory_, "/", id), id);
}

// --- Adding ---

absl::StatusOr<ModelHandle> Registry::Create(const std::string& model_id,
                                             VersionContents contents) {
  return AddVersion(model_id, std::move(contents), /*must_be_new=*/true);
}

absl::StatusOr<ModelHandle> Registry::Publish(const std::string& model_id,
                                              VersionContents contents) {
  return AddVersion(model_id, std::move(contents), /*must_be_new=*/false);
}

absl::StatusOr<ModelHandle> Registry::Import(const std::string& model_id,
                                             const ImportContents& contents) {
  RETURN_IF_ERROR(CheckResourceId(model_id, "model_id"));
  if (ModelHandle done = FindRequest(model_id, contents.request_id)) {
    return done;
  }
  ASSIGN_OR_RETURN(VersionContents version, ReadImport(contents));
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
      entry->folder.RemoveIfEmpty();
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
        absl::StrCat(NameOfModel(model_id), " already exists"));
  }
  const int64_t number = entry.last_number + 1;
  ASSIGN_OR_RETURN(ModelHandle version,
                   entry.folder.Store(number, entry.newest(), contents));
  absl::MutexLock lock(&mutex_);
  entry.versions.emplace(number, version);
  entry.last_number = number;
  return version;
}

// --- Looking ---

std::shared_ptr<Registry::Entry> Registry::FindOrNull(
    absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  const auto it = models_.find(id);
  return it == models_.end() || it->second->versions.empty() ? nullptr
                                                             : it->second;
}

absl::StatusOr<std::shared_ptr<Registry::Entry>> Registry::Find(
    absl::string_view id) const {
  std::shared_ptr<Entry> entry = FindOrNull(id);
  if (entry == nullptr) return NoSuchModel(id);
  return entry;
}

std::shared_ptr<Registry::Entry> Registry::FindOrAdd(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<Entry>& entry = models_[id];
  if (entry == nullptr) entry = std::make_shared<Entry>(Folder(id));
  return entry;
}

absl::StatusOr<ModelHandle> Registry::Get(absl::string_view name) const {
  ASSIGN_OR_RETURN(const ModelName parsed, ParseModelName(name));
  ASSIGN_OR_RETURN(const auto entry, Find(parsed.id));
  absl::MutexLock lock(&mutex_);
  return Resolve(*entry, parsed);
}

absl::StatusOr<ModelHandle> Registry::Resolve(const Entry& entry,
                                              const ModelName& name) const {
  if (name.names_model()) return entry.versions.rbegin()->second;
  int64_t number = name.number;
  if (!name.alias.empty()) {
    RETURN_IF_ERROR(entry.aliases.status());
    const auto alias = entry.aliases->find(name.alias);
    if (alias == entry.aliases->end()) {
      return absl::NotFoundError(
          absl::StrCat("there is no ", NameOfAlias(name.id, name.alias)));
    }
    number = alias->second;
  }
  const auto it = entry.versions.find(number);
  if (it != entry.versions.end()) return it->second;
  return absl::NotFoundError(
      absl::StrCat("there is no ", NameOfVersion(name.id, number),
                   "; the newest version of ", NameOfModel(name.id), " is ",
                   entry.versions.rbegin()->first));
}

ModelHandle Registry::FindRequest(absl::string_view model_id,
                                  absl::string_view request_id) const {
  const std::shared_ptr<Entry> entry = FindOrNull(model_id);
  if (entry == nullptr) return nullptr;
  absl::MutexLock lock(&mutex_);
  return entry->OfRequest(request_id);
}

namespace {

template <typename Entry>
ModelSummary Summarize(const std::string& id, const Entry& entry) {
  ModelSummary summary;
  summary.name = NameOfModel(id);
  summary.latest_version = NameOfVersion(id, entry.versions.rbegin()->first);
  summary.version_count = static_cast<int64_t>(entry.versions.size());
  if (entry.aliases.ok()) summary.aliases = *entry.aliases;
  summary.create_time = absl::InfinitePast();
  for (const auto& [number, version] : entry.versions) {
    if (!version.ok()) continue;
    summary.create_time = (*version)->create_time;
    break;
  }
  return summary;
}

}  // namespace

absl::StatusOr<ModelSummary> Registry::Describe(
    absl::string_view model_name) const {
  ASSIGN_OR_RETURN(const std::string id, ParseModelOnly(model_name));
  ASSIGN_OR_RETURN(const auto entry, Find(id));
  absl::MutexLock lock(&mutex_);
  return Summarize(id, *entry);
}

std::vector<ModelSummary> Registry::ListModels(absl::string_view after,
                                               int64_t limit) const {
  std::vector<ModelSummary> summaries;
  absl::MutexLock lock(&mutex_);
  for (auto it = models_.upper_bound(after);
       it != models_.end() && static_cast<int64_t>(summaries.size()) < limit;
       ++it) {
    if (it->second->versions.empty()) continue;
    summaries.push_back(Summarize(it->first, *it->second));
  }
  return summaries;
}

absl::StatusOr<std::vector<ModelHandle>> Registry::ListVersions(
    absl::string_view model_name, int64_t after, int64_t limit) const {
  ASSIGN_OR_RETURN(const std::string id, ParseModelOnly(model_name));
  ASSIGN_OR_RETURN(const auto entry, Find(id));
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
    if (!entry->aliases.ok()) errors.push_back(entry->aliases.status());
  }
  return errors;
}

// --- Deleting ---

void Registry::BeforeDelete(std::function<void(const ModelVersion&)> callback) {
  before_delete_ = std::move(callback);
}

void Registry::OnDelete(std::function<void(const ModelVersion&)> callback) {
  on_delete_ = std::move(callback);
}

absl::Status Registry::Delete(absl::string_view model_name) {
  ASSIGN_OR_RETURN(const std::string id, ParseModelOnly(model_name));
  ASSIGN_OR_RETURN(const auto entry, Find(id));
  absl::MutexLock change(&entry->change);
  if (entry->deleted) return NoSuchModel(id);
  for (const auto& [number, version] : entry->versions) {
    if (version.ok() && before_delete_) before_delete_(**version);
  }
  // Before the files go, so that whoever misses them knows why.
  const auto mark = [&](bool deleted) {
    for (const auto& [number, version] : entry->versions) {
      if (version.ok()) (*version)->MarkDeleted(deleted);
    }
  };
  mark(true);
  const auto aside = entry->folder.MoveAside();
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

namespace {

absl::Status CheckMayGo(const std::string& name, size_t num_versions,
                        const std::vector<std::string>& aliases) {
  if (!aliases.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, ": ", absl::StrJoin(aliases, ", "),
                     aliases.size() == 1 ? " points" : " point",
                     " at it; point elsewhere first"));
  }
  if (num_versions > 1) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      name, ": is the only version of its model; delete the model instead"));
}

}  // namespace

absl::Status Registry::DeleteVersion(absl::string_view version_name) {
  ASSIGN_OR_RETURN(const ModelName name, ParseVersionOnly(version_name));
  ASSIGN_OR_RETURN(const auto entry, Find(name.id));
  absl::MutexLock change(&entry->change);
  if (entry->deleted) return NoSuchModel(name.id);
  const auto found = entry->versions.find(name.number);
  if (found == entry->versions.end()) {
    return absl::NotFoundError(absl::StrCat("there is no ", version_name));
  }
  RETURN_IF_ERROR(CheckMayGo(std::string(version_name), entry->versions.size(),
                             entry->AliasesOf(name.number)));
  const absl::StatusOr<ModelHandle> version = found->second;
  if (version.ok() && before_delete_) before_delete_(**version);
  if (version.ok()) (*version)->MarkDeleted(true);
  const auto aside = entry->folder.MoveVersionAside(
      name.number, /*keep_number=*/name.number == entry->last_number);
  if (!aside.ok()) {
    if (version.ok()) (*version)->MarkDeleted(false);
    return aside.status();
  }
  {
    absl::MutexLock lock(&mutex_);
    entry->versions.erase(name.number);
  }
  if (version.ok() && on_delete_) on_delete_(**version);
  RemoveTree(*aside).IgnoreError();  // swept at the next start
  return absl::OkStatus();
}

// --- Aliases ---

absl::Status Registry::SetAlias(absl::string_view alias_name,
                                absl::string_view version_name) {
  ASSIGN_OR_RETURN(const ModelName alias, ParseAliasOnly(alias_name));
  ASSIGN_OR_RETURN(const ModelName target, ParseModelName(version_name));
  if (target.id != alias.id) {
    return absl::InvalidArgumentError(
        absl::StrCat(alias_name, ": cannot point at ", version_name,
                     ", which is of another model"));
  }
  ASSIGN_OR_RETURN(const auto entry, Find(alias.id));
  absl::MutexLock change(&entry->change);
  if (entry->deleted) return NoSuchModel(alias.id);
  ModelHandle version;
  {
    absl::MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(version, Resolve(*entry, target));
  }
  Aliases after = entry->aliases.value_or(Aliases());
  after[alias.alias] = version->number;
  if (static_cast<int64_t>(after.size()) > kMaxAliases) {
    return absl::ResourceExhaustedError(absl::StrCat(
        alias_name, ": a model has ", kMaxAliases, " aliases at most"));
  }
  return ChangeAliases(*entry, after);
}

absl::Status Registry::DeleteAlias(absl::string_view alias_name) {
  ASSIGN_OR_RETURN(const ModelName alias, ParseAliasOnly(alias_name));
  ASSIGN_OR_RETURN(const auto entry, Find(alias.id));
  absl::MutexLock change(&entry->change);
  if (entry->deleted) return NoSuchModel(alias.id);
  RETURN_IF_ERROR(entry->aliases.status());
  Aliases after = *entry->aliases;
  if (after.erase(alias.alias) == 0) {
    return absl::NotFoundError(absl::StrCat("there is no ", alias_name));
  }
  return ChangeAliases(*entry, after);
}

absl::Status Registry::ChangeAliases(Entry& entry, const Aliases& after) {
  RETURN_IF_ERROR(ReplaceAliases(entry.folder.alias_path(),
                                 entry.aliases.value_or(Aliases()), after));
  absl::MutexLock lock(&mutex_);
  entry.aliases = after;
  return absl::OkStatus();
}

}  // namespace recurve
