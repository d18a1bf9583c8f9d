#include "server/periodic_task.h"

#include <utility>

namespace recurve::server {

PeriodicTask::PeriodicTask(absl::Duration period, std::function<void()> task)
    : thread_([this, period, task = std::move(task)] {
        while (!stop_.WaitForNotificationWithTimeout(period)) task();
      }) {}

PeriodicTask::~PeriodicTask() {
  stop_.Notify();
  thread_.join();
}

}  // namespace recurve::server
