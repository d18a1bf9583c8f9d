// Has versions ready on devices before they are asked for.
#ifndef RECURVE_ENGINE_SERVE_VERSION_LOADER_H_
#define RECURVE_ENGINE_SERVE_VERSION_LOADER_H_

#include "absl/status/status.h"
#include "engine/schedule/device.h"
#include "engine/serve/batch_runner.h"
#include "engine/serve/model_version.h"
#include "engine/serve/run_plan.h"

namespace recurve {

// Thread-safe.
class VersionLoader {
 public:
  // Both outlive the loader; `limits` are those of the runner.
  VersionLoader(DevicePool& devices, BatchRunner& runner,
                const RunLimits& limits)
      : devices_(devices), runner_(runner), limits_(limits) {}

  // On each device that has room beside what is in use: the weights and the
  // arena of the largest pass that requests are given, until BatchRunner::Drop.
  // Waits for it; not on a device's thread. ResourceExhausted, with the
  // numbers, if no device has; DataLoss or NotFound as
  // ModelVersion::Parameters. Errors change nothing.
  absl::Status Load(const ModelHandle& version);
  // Whether some device could ever hold it.
  absl::Status CheckFits(const ModelVersion& version) const;

 private:
  DevicePool& devices_;
  BatchRunner& runner_;
  const RunLimits limits_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_VERSION_LOADER_H_
