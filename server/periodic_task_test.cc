#include "server/periodic_task.h"

#include <atomic>

#include "absl/synchronization/blocking_counter.h"
#include "gtest/gtest.h"

namespace recurve::server {
namespace {

TEST(PeriodicTaskTest, IsDoneAgainAndAgain) {
  std::atomic<int> times = 0;
  absl::BlockingCounter three(3);
  const PeriodicTask task(absl::Nanoseconds(1), [&] {
    if (++times <= 3) three.DecrementCount();
  });
  three.Wait();
}

TEST(PeriodicTaskTest, EndsWithoutWaitingForThePeriod) {
  const PeriodicTask task(absl::InfiniteDuration(),
                          [] { FAIL() << "the period is not over"; });
}

}  // namespace
}  // namespace recurve::server
