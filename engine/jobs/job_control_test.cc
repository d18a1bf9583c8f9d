#include "engine/jobs/job_control.h"

#include <thread>

#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum StopRequest;

TEST(JobControlTest, TheHighestRequestCounts) {
  JobControl control;
  EXPECT_EQ(control.requested(), kNone);
  EXPECT_FALSE(control.stopping());
  for (const StopRequest request : {kShutdown, kPause, kCancel}) {
    control.Stop(request);
    EXPECT_EQ(control.requested(), request);
    EXPECT_TRUE(control.stopping());
  }
  control.Stop(kPause);
  EXPECT_EQ(control.requested(), kCancel);
}

TEST(JobControlTest, AShutdownIsSeenBesideACancellation) {
  JobControl control;
  control.Stop(kCancel);
  EXPECT_FALSE(control.WaitForShutdown(absl::ZeroDuration()));
  std::thread server([&control] { control.Stop(kShutdown); });
  EXPECT_TRUE(control.WaitForShutdown(absl::InfiniteDuration()));
  server.join();
  EXPECT_EQ(control.requested(), kCancel);
}

}  // namespace
}  // namespace recurve
