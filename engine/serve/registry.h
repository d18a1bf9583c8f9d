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
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/resource_id.h"
#include "engine/model/model.h"

namespace recurve {

using ParameterBuffer = std::vector<float>;  // Model::parameters() layout

// One version of a model. Immutable, safe for concurrent use.
class ModelVersion {
 public:
  std::string name;  // models/ID/versions/N
  std::string model_id;
  int64_t number = 0;
  std::shared_ptr<const Model> model;   // model->config() is the config
  std::vector<std::string> vocabulary;  // index = token id; may be empty
  std::string source;     // `created`, `imported`, `jobs/...`, `trainers/...`
  std::string sha256;     // of model.safetensors, lower-case hex
  std::string directory;  // where the files are
  // Key prefixes of the embedding and output modules in model.safetensors.
  std::string embedding_key;
  std::string output_key;
  std::string request_id;  // of the call that made it; may be empty
  absl::Time create_time;

  // The weights, read from disk on first use and kept as long as someone holds
  // them. DataLoss names a file that is damaged or gone.
  absl::StatusOr<std::shared_ptr<const ParameterBuffer>> Parameters() const;

 private:
  mutable absl::Mutex mutex_;
  mutable std::weak_ptr<const ParameterBuffer> parameters_
      ABSL_GUARDED_BY(mutex_);
};

using ModelHandle = std::shared_ptr<const ModelVersion>;

// What a new version is made of.
struct VersionContents {
  std::shared_ptr<const Model> model;
  ParameterBuffer parameters;
  std::vector<std::string> vocabulary;
  std::string source;
  // Empty = the names that export chooses.
  std::string embedding_key;
  std::string output_key;
  // If a version of this model was made by a call with the same id, that
  // version is returned and nothing is written. Survives restarts.
  std::string request_id;
};

// A checkpoint of the libraries to be read from `path`.
struct ImportContents {
  std::string path;
  v1::ModelConfig config;
  std::vector<std::string> vocabulary;
  std::string embedding_key;  // hints; empty = found from the file
  std::string output_key;
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
  // With all its versions. Handles stay good, but for weights not read yet.
  absl::Status Delete(absl::string_view model_name);

  // Called, outside the registry's lock, with each version that is deleted.
  void OnDelete(std::function<void(const ModelVersion&)> callback);

 private:
  // A version that cannot be read is its error.
  using Versions = std::map<int64_t, absl::StatusOr<ModelHandle>>;
  struct Entry;

  explicit Registry(std::string directory);
  absl::Status Load();
  absl::StatusOr<std::shared_ptr<Entry>> Find(absl::string_view id) const;
  absl::StatusOr<ModelHandle> AddVersion(const std::string& model_id,
                                         VersionContents contents,
                                         bool must_be_new);

  const std::string directory_;  // DATA_DIR/models
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>, std::less<>> models_
      ABSL_GUARDED_BY(mutex_);
  std::function<void(const ModelVersion&)> on_delete_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_REGISTRY_H_
