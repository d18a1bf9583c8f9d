// The models that one device has ready: an executor and its weights each.
#ifndef RECURVE_ENGINE_SERVE_EXECUTOR_CACHE_H_
#define RECURVE_ENGINE_SERVE_EXECUTOR_CACHE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/executor.h"
#include "engine/serve/model_version.h"
#include "kernels/backend.h"

namespace recurve {

// Used on the device's thread alone.
class ExecutorCache {
 public:
  // Beyond `max_models` the one used longest ago goes.
  explicit ExecutorCache(int max_models) : max_models_(max_models) {}

  // Good until the next call. Uploads the weights if the model is not ready.
  absl::StatusOr<Executor*> Get(const ModelHandle& version, Backend& backend);
  void Drop(const ModelVersion& version);
  // Keeps this version alone: what the others hold is for who needs it now.
  void DropOthers(const ModelHandle& version);
  void Clear() { slots_.clear(); }

 private:
  struct Slot {
    // Tells a version from a later one at the same address.
    std::weak_ptr<const ModelVersion> version;
    std::unique_ptr<DeviceBuffer> parameters;
    std::unique_ptr<Executor> executor;
  };

  const int max_models_;
  std::vector<Slot> slots_;  // used last at the back
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_EXECUTOR_CACHE_H_
