#include "engine/train/device_gang.h"

#include <algorithm>
#include <set>

#include "absl/synchronization/notification.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/gpus.h"

namespace recurve {
namespace {

// The ranks' GPUs; nothing if some rank has none, or two share one.
std::vector<int> GpuOfEachRank(const DeviceGroup& group) {
  std::vector<int> ordinals;
  for (int rank = 0; rank < group.size(); ++rank) {
    const DeviceSpec& spec = group.device(rank).spec();
    if (spec.kind != DeviceKind::kCuda) return {};
    ordinals.push_back(spec.ordinal);
  }
  return std::set<int>(ordinals.begin(), ordinals.end()).size() ==
                 ordinals.size()
             ? ordinals
             : std::vector<int>();
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> Connect(
    const DeviceGroup& group) {
  const std::vector<int> ordinals = GpuOfEachRank(group);
  // A lone device has nobody to talk to.
  if (ordinals.size() > 1) return ConnectGpus(ordinals);
  return CreateLocalCommunicators(group.size());
}

absl::Status RunGang(const DeviceGroup& group, GangKind kind,
                     const RankTask& task) {
  std::vector<absl::Status> statuses(group.size());
  absl::Notification done;
  // A gang is on all devices of the pool; the others have nothing to do in it.
  const auto run = [&](int device, Backend& backend) {
    const auto member =
        std::lower_bound(group.members.begin(), group.members.end(), device);
    if (member == group.members.end() || *member != device) return;
    const int rank = static_cast<int>(member - group.members.begin());
    statuses[rank] = task(rank, backend);
  };
  const auto notify = [&] { done.Notify(); };
  if (kind == GangKind::kCollective) {
    group.pool->EnqueueCollective(run, notify);
  } else {
    group.pool->EnqueueGang(run, notify);
  }
  done.WaitForNotification();
  absl::Status worst;
  for (const absl::Status& status : statuses) {
    if (worst.ok() || (absl::IsCancelled(worst) && !status.ok())) {
      worst = status;
    }
  }
  return worst;
}

}  // namespace recurve
