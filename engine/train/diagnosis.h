// Says where the numbers of a call stop being finite: the same whatever devices
// the call is on.
#ifndef RECURVE_ENGINE_TRAIN_DIAGNOSIS_H_
#define RECURVE_ENGINE_TRAIN_DIAGNOSIS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/train/call_work.h"
#include "engine/train/device_gang.h"
#include "engine/train/device_replica.h"
#include "engine/train/not_finite.h"

namespace recurve {

// After a call whose forward passes, or the sum of whose gradients, came out
// not finite: every device runs its part again and looks. Errors of devices and
// Cancelled as in the call.
absl::StatusOr<NotFinite> Diagnose(
    const DeviceGroup& group, const Model& model,
    const std::vector<std::unique_ptr<DeviceReplica>>& replicas,
    const CallWork& work, NotFinitePart part);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DIAGNOSIS_H_
