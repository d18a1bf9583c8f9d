#include "engine/train/device_gang.h"

#include <vector>

#include "absl/synchronization/notification.h"

namespace recurve {

absl::Status RunGang(DevicePool& pool, GangKind kind, const RankTask& task) {
  std::vector<absl::Status> statuses(pool.size());
  absl::Notification done;
  const auto run = [&](int rank, Backend& backend) {
    statuses[rank] = task(rank, backend);
  };
  const auto notify = [&] { done.Notify(); };
  if (kind == GangKind::kCollective) {
    pool.EnqueueCollective(run, notify);
  } else {
    pool.EnqueueGang(run, notify);
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
