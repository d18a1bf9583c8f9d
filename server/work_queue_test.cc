#include "server/work_queue.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace recurve::server {
namespace {

TEST(WorkQueueTest, RefusesAtOnceWhenFullButTakesPieces) {
  absl::Notification started, release;
  std::atomic<int> done = 0;
  {
    WorkQueue queue("a thread", 1, 2);
    ASSERT_TRUE(queue
                    .TryAdd([&] {
                      started.Notify();
                      release.WaitForNotification();
                      ++done;
                    })
                    .ok());
    started.WaitForNotification();
    EXPECT_TRUE(queue.TryAdd([&] { ++done; }).ok());
    EXPECT_TRUE(queue.TryAdd([&] { ++done; }).ok());
    EXPECT_EQ(queue.TryAdd([&] { ++done; }).code(),
              absl::StatusCode::kResourceExhausted);
    queue.AddPiece([&] { ++done; });
    release.Notify();
  }
  EXPECT_EQ(done, 4);  // the destructor finished what was accepted
}

}  // namespace
}  // namespace recurve::server
