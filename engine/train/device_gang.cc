#include "engine/train/device_gang.h"

#include <algorithm>

#include "absl/synchronization/notification.h"

namespace recurve {

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
