// Models and their versions, on disk and ready to use.
//
// Each model has its folder, DATA_DIR/models/ID (model_folder.h). A version is
// written aside, fsynced and renamed: after a crash it is there whole or not at
// all. What is here is immutable and shared: a handle keeps its version alive
// through deletion. Aliases are names that are pointed at one version or
// another.
#ifndef RECURVE_ENGINE_SERVE_REGISTRY_H_
#define RECURVE_ENGINE_SERVE_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/serve/alias_file.h"
#include "engine/serve/model_folder.h"
#include "engine/serve/model_name.h"
#include "engine/serve/model_version.h"
#include "engine/serve/version_contents.h"

namespace recurve {

struct ModelSummary {
  std::string name;        // models/ID
  absl::Time create_time;  // of the first version that is still there
  std::string latest_version;
  int64_t version_count = 0;
  Aliases aliases;
};

// Thread-safe; file work of different models may run at the same time, calls
// that only look never wait for it.
class Registry {
 public:
  // Loads what is there and removes what a crash left half done. A version
  // that cannot be read does not hinder the others: asking for it is DataLoss.
  static absl::StatusOr<std::unique_ptr<Registry>> Open(
      const std::string& data_dir);
  ~Registry();

  // Version 1 of a model that is not there yet, else AlreadyExists.
  absl::StatusOr<ModelHandle> Create(const std::string& model_id,
                                     VersionContents contents);
  // The next version of a model, which is created if need be. On disk when the
  // call returns.
  absl::StatusOr<ModelHandle> Publish(const std::string& model_id,
                                      VersionContents contents);
  absl::StatusOr<ModelHandle> Import(const std::string& model_id,
                                     const ImportContents& contents);

  // `models/ID` (its newest version), `models/ID/versions/N` or
  // `models/ID/aliases/ALIAS`.
  absl::StatusOr<ModelHandle> Get(absl::string_view name) const;
  // The version that a call with this request id made; null if none did.
  ModelHandle FindRequest(absl::string_view model_id,
                          absl::string_view request_id) const;
  absl::StatusOr<ModelSummary> Describe(absl::string_view model_name) const;
  // Sorted by id, at most `limit`, those after the model id `after`.
  std::vector<ModelSummary> ListModels(absl::string_view after,
                                       int64_t limit) const;
  // Ascending, at most `limit`, those after version number `after`. Versions
  // that cannot be read are left out.
  absl::StatusOr<std::vector<ModelHandle>> ListVersions(
      absl::string_view model_name, int64_t after, int64_t limit) const;
  // Why versions, or a model's aliases, cannot be read, one error each.
  std::vector<absl::Status> Unreadable() const;

  // With all its versions. Handles stay good, but for weights not read yet.
  absl::Status Delete(absl::string_view model_name);
  // `models/ID/versions/N`, likewise; its number is not used again.
  // FailedPrecondition for a model's only one, and while an alias points at it.
  absl::Status DeleteVersion(absl::string_view version_name);

  // Points `models/ID/aliases/ALIAS` at a version of the same model, which may
  // be named as in Get. On disk when the call returns; whoever calls Get sees
  // the version before or the one after. Where the aliases cannot be read, this
  // one alone is there afterwards.
  absl::Status SetAlias(absl::string_view alias_name,
                        absl::string_view version_name);
  absl::Status DeleteAlias(absl::string_view alias_name);
  static constexpr int64_t kMaxAliases = 100;  // of a model

  // Called with each version that is about to be deleted, while its files are
  // there. Set it before the registry is shared.
  void BeforeDelete(std::function<void(const ModelVersion&)> callback);
  // Called, outside the registry's lock, with each version that is deleted.
  // Set it before the registry is shared.
  void OnDelete(std::function<void(const ModelVersion&)> callback);

 private:
  struct Entry;

  explicit Registry(std::string directory);
  absl::Status Load();
  ModelFolder Folder(const std::string& id) const;
  std::shared_ptr<Entry> FindOrNull(absl::string_view id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // NotFound says so.
  absl::StatusOr<std::shared_ptr<Entry>> Find(absl::string_view id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<Entry> FindOrAdd(const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ModelHandle> Resolve(const Entry& entry,
                                      const ModelName& name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<ModelHandle> AddVersion(const std::string& model_id,
                                         VersionContents contents,
                                         bool must_be_new);
  absl::StatusOr<ModelHandle> AddTo(Entry& entry, const std::string& model_id,
                                    VersionContents& contents,
                                    bool must_be_new);
  absl::Status ChangeAliases(Entry& entry, const Aliases& after);

  const std::string directory_;  // DATA_DIR/models
  std::function<void(const ModelVersion&)> before_delete_;
  std::function<void(const ModelVersion&)> on_delete_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> models_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_REGISTRY_H_
