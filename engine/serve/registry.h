// Models and their versions, on disk and ready to use.
//
//   DATA_DIR/models/ID/versions/N/{config.textproto, model.safetensors,
//                                  vocabulary.json, metadata.json}
//
// model.safetensors has the libraries' keys and layouts, as export writes them.
// A version is written aside, fsynced and renamed: after a crash it is there
// whole or not at all. What is here is immutable and shared: a handle keeps its
// version alive through deletion.
#ifndef RECURVE_ENGINE_SERVE_REGISTRY_H_
#define RECURVE_ENGINE_SERVE_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/model/library_import.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/serve/model_version.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve {

// What a new version is made of.
struct VersionContents {
  std::shared_ptr<const Model> model;
  ParameterBuffer parameters;
  std::vector<std::string> vocabulary;  // as long as the model's, or empty
  std::string source;  // `created`, `imported`, `jobs/...`, `trainers/...`
  // Module names in model.safetensors. Absent: those of the model's newest
  // version if it has the same config, else DefaultNames.
  std::optional<LibraryNames> names;
  // If a version of this model was made by a call with the same id, that
  // version is returned and nothing is written. Survives restarts.
  std::string request_id;
};

// A checkpoint of the libraries to be read from `path`.
struct ImportContents {
  std::string path;
  v1::ModelConfig config;
  std::vector<std::string> vocabulary;
  ImportOptions options;
  std::string request_id;
};

struct ModelSummary {
  std::string name;        // models/ID
  absl::Time create_time;  // of the first version that is still there
  std::string latest_version;
  int64_t version_count = 0;
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

  // `models/ID` (its newest version) or `models/ID/versions/N`.
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
  // Why versions cannot be read, one error each.
  std::vector<absl::Status> Unreadable() const;
  // With all its versions. Handles stay good, but for weights not read yet.
  absl::Status Delete(absl::string_view model_name);

  // Called, outside the registry's lock, with each version that is deleted.
  // Set it before the registry is shared.
  void OnDelete(std::function<void(const ModelVersion&)> callback);

 private:
  // A version that cannot be read is its error.
  using Versions = std::map<int64_t, absl::StatusOr<ModelHandle>>;
  struct Entry;

  explicit Registry(std::string directory);
  absl::Status Load();
  // What a model leaves whose first version was not stored.
  void RemoveEmptyFolders(absl::string_view id) const;
  std::string ModelFolder(absl::string_view id) const;
  std::string VersionsFolder(absl::string_view id) const;
  std::string VersionFolder(absl::string_view id, int64_t number) const;
  std::shared_ptr<Entry> Find(absl::string_view id) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<Entry> FindOrAdd(const std::string& id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<ModelHandle> AddVersion(const std::string& model_id,
                                         VersionContents contents,
                                         bool must_be_new);
  absl::StatusOr<ModelHandle> AddTo(Entry& entry, const std::string& model_id,
                                    VersionContents& contents,
                                    bool must_be_new);

  const std::string directory_;  // DATA_DIR/models
  std::function<void(const ModelVersion&)> on_delete_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> models_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_REGISTRY_H_
