// A task that all devices of a pool do, and the wait for it.
#ifndef RECURVE_ENGINE_TRAIN_DEVICE_GANG_H_
#define RECURVE_ENGINE_TRAIN_DEVICE_GANG_H_

#include <functional>

#include "absl/status/status.h"
#include "engine/schedule/device.h"
#include "kernels/backend.h"

namespace recurve {

using RankTask = std::function<absl::Status(int rank, Backend&)>;

enum class GangKind { kIndependent, kCollective };

// Runs the task on every device and waits; not from a device's thread.
// Cancelled only if that is the worst that happened; otherwise the error of the
// first rank that has another one.
absl::Status RunGang(DevicePool& pool, GangKind kind, const RankTask& task);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DEVICE_GANG_H_
