// Something done every now and then, on a thread of its own.
#ifndef RECURVE_SERVER_PERIODIC_TASK_H_
#define RECURVE_SERVER_PERIODIC_TASK_H_

#include <functional>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace recurve::server {

class PeriodicTask {
 public:
  // First after one period, then after each end of it and a period.
  PeriodicTask(absl::Duration period, std::function<void()> task);
  // Lets it finish.
  ~PeriodicTask();

 private:
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_PERIODIC_TASK_H_
