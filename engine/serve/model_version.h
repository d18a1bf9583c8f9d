// One version of a model, ready to use.
#ifndef RECURVE_ENGINE_SERVE_MODEL_VERSION_H_
#define RECURVE_ENGINE_SERVE_MODEL_VERSION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "kernels/precision.h"

namespace recurve {

using ParameterBuffer = std::vector<float>;  // Model::parameters() layout

class ModelVersion;
using ModelHandle = std::shared_ptr<const ModelVersion>;

// Immutable once shared; safe for concurrent use. A handle keeps it good after
// its deletion, but for weights that were not read yet.
class ModelVersion : public std::enable_shared_from_this<ModelVersion> {
 public:
  // Weights in memory alone, of no registry.
  static ModelHandle InMemory(std::shared_ptr<const Model> model,
                              ParameterBuffer parameters, std::string name = "",
                              std::vector<std::string> vocabulary = {});
  ModelVersion() = default;

  // The same version to be run at that precision: name, files, weights in host
  // memory and what is said of its deletion are shared, all that devices make
  // of it is its own. One object a precision, which lives as long as this one,
  // or as its handles. REQUIRES: precision() is float32.
  ModelHandle At(Precision precision) const;
  // This one, and what At was asked for.
  std::vector<ModelHandle> AtAllPrecisions() const;
  Precision precision() const { return precision_; }
  // Whether it is `stored` or what its At gave.
  bool Is(const ModelVersion& stored) const { return host_ == stored.host_; }

  std::string name;  // models/ID/versions/N; in memory whatever it is of
  std::string model_id;
  int64_t number = 0;
  std::shared_ptr<const Model> model;   // model->config() is the config
  std::vector<std::string> vocabulary;  // index = token id; may be empty
  LibraryNames names;                   // of the modules in model.safetensors
  std::string source;      // `created`, `imported`, `jobs/...`, `trainers/...`
  std::string request_id;  // of the call that made it; may be empty
  std::string sha256;      // of model.safetensors
  std::string directory;   // where the files are; empty in memory
  absl::Time create_time;

  // The weights, read and checked on first use and kept as long as someone
  // holds them. DataLoss names a file that is damaged or gone, NotFound says
  // that the version was deleted.
  absl::StatusOr<std::shared_ptr<const ParameterBuffer>> Parameters() const;

  // Whether Parameters would succeed, the weights being read only the first
  // time; then it is enough that the file is there and may be read.
  absl::Status CheckParameters() const;

  // Reads the weights, if that can be, and keeps them as long as the version:
  // for whoever still uses it when its files go.
  void KeepParameters() const;

  void MarkDeleted(bool deleted = true) const { host_->deleted = deleted; }
  bool deleted() const { return host_->deleted; }

 private:
  // What all precisions share.
  struct Host {
    std::atomic<bool> deleted = false;
    std::atomic<bool> checked = false;
    std::shared_ptr<const ParameterBuffer> in_memory;
    absl::Mutex mutex;
    std::weak_ptr<const ParameterBuffer> parameters ABSL_GUARDED_BY(mutex);
    std::shared_ptr<const ParameterBuffer> kept ABSL_GUARDED_BY(mutex);
  };
  struct Others {
    absl::Mutex mutex;
    std::vector<ModelHandle> versions ABSL_GUARDED_BY(mutex);
  };

  ModelVersion(const ModelVersion&) = default;

  std::shared_ptr<Host> host_ = std::make_shared<Host>();
  std::shared_ptr<Others> others_ = std::make_shared<Others>();
  Precision precision_ = Precision::kFloat32;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_MODEL_VERSION_H_
