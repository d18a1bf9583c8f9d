// The devices of a pool that a trainer is on, and tasks that they do together.
#ifndef RECURVE_ENGINE_TRAIN_DEVICE_GANG_H_
#define RECURVE_ENGINE_TRAIN_DEVICE_GANG_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/schedule/device.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace recurve {

// Rank r is device members[r] of the pool; ascending. `pool` outlives it.
struct DeviceGroup {
  DevicePool* pool = nullptr;
  std::vector<int> members;

  int size() const { return static_cast<int>(members.size()); }
  DeviceWorker& device(int rank) const { return pool->device(members[rank]); }
};

// Communicators by rank: through NCCL if every rank has a GPU of its own, else
// by copies. The errors are NCCL's.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> Connect(
    const DeviceGroup& group);

using RankTask = std::function<absl::Status(int rank, Backend&)>;

enum class GangKind { kIndependent, kCollective };

// Runs the task on every device of the group and waits; not from a device's
// thread. Cancelled only if that is the worst that happened; otherwise the
// error of the first rank that has another one.
absl::Status RunGang(const DeviceGroup& group, GangKind kind,
                     const RankTask& task);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DEVICE_GANG_H_
