// Has versions ready on devices before they are asked for.
#ifndef RECURVE_ENGINE_SERVE_VERSION_LOADER_H_
#define RECURVE_ENGINE_SERVE_VERSION_LOADER_H_

#include "absl/status/status.h"
#include "engine/serve/model_admission.h"
#include "engine/serve/model_version.h"
#include "engine/serve/run_plan.h"

namespace recurve {

// Thread-safe.
class VersionLoader {
 public:
  // `admission` outlives the loader; `limits` are those of whoever runs passes.
  VersionLoader(ModelAdmission& admission, const RunLimits& limits)
      : admission_(admission), limits_(limits) {}

  // On each device that has room beside what is in use: the weights and the
  // arena of the largest pass that requests are given, until
  // ModelAdmission::Drop. Waits for it; not on a device's thread.
  // ResourceExhausted, with the numbers, if no device has; FailedPrecondition
  // and InvalidArgument if none can serve it at its precision; DataLoss or
  // NotFound as ModelVersion::Parameters. Errors change nothing.
  absl::Status Load(const ModelHandle& version);
  // Whether some device could ever hold it.
  absl::Status CheckFits(const ModelVersion& version) const;

 private:
  ModelAdmission& admission_;
  const RunLimits limits_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_VERSION_LOADER_H_
