// A task on a device's thread, waited for.
#ifndef RECURVE_TESTS_BENCHMARKS_PEERS_ON_DEVICE_H_
#define RECURVE_TESTS_BENCHMARKS_PEERS_ON_DEVICE_H_

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "engine/schedule/device.h"
#include "kernels/backend.h"

namespace recurve::peers {

template <typename F>
absl::Status OnDevice(DeviceWorker& device, const F& task) {
  absl::Status status;
  absl::Notification done;
  device.Enqueue(TaskClass::kServing, [&](Backend& backend) {
    status = task(backend);
    done.Notify();
  });
  done.WaitForNotification();
  return status;
}

}  // namespace recurve::peers

#endif  // RECURVE_TESTS_BENCHMARKS_PEERS_ON_DEVICE_H_
