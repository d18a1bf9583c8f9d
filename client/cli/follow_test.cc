#include "client/cli/follow.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::JobEvent StateEvent(int64_t number, v1::Job::State state) {
  v1::JobEvent event;
  event.set_number(number);
  event.mutable_state()->set_state(state);
  return event;
}

// A server that sends what is scripted, one attempt after another, and a clock
// that only sleeping moves.
class FollowTest : public ::testing::Test {
 protected:
  struct Attempt {
    std::vector<v1::JobEvent> events;
    absl::Status end;
  };

  FollowTest() {
    hooks_.watch = [this](int64_t first, const FollowHooks::Sink& sink) {
      asked_.push_back(first);
      if (asked_.size() > attempts_.size()) {
        return absl::UnavailableError("away");
      }
      const Attempt& attempt = attempts_[asked_.size() - 1];
      for (const v1::JobEvent& event : attempt.events) {
        if (const absl::Status sunk = sink(event); !sunk.ok()) return sunk;
      }
      return attempt.end;
    };
    hooks_.show = [this](const v1::JobEvent& event) {
      shown_.push_back(event.number());
    };
    hooks_.lost = [this](const absl::Status&) { ++lost_; };
    hooks_.back = [this] { ++back_; };
    hooks_.now = [this] { return now_; };
    hooks_.sleep = [this](absl::Duration delay) { now_ += delay; };
  }

  FollowHooks hooks_;
  std::vector<Attempt> attempts_;
  std::vector<int64_t> asked_;
  std::vector<int64_t> shown_;
  int lost_ = 0;
  int back_ = 0;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(FollowTest, ShowsEachEventOnceOverARestart) {
  const absl::Status away = absl::UnavailableError("away");
  attempts_ = {{{StateEvent(0, v1::Job::QUEUED)}, away},
               {{}, away},
               {{StateEvent(1, v1::Job::RUNNING)}, away},
               {{StateEvent(2, v1::Job::SUCCEEDED)}, absl::OkStatus()}};
  const auto job = FollowJob(hooks_, absl::Minutes(1));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->state(), v1::Job::SUCCEEDED);
  EXPECT_THAT(asked_, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(shown_, ElementsAre(0, 1, 2));
  EXPECT_EQ(lost_, 2);
  EXPECT_EQ(back_, 2);
}

TEST_F(FollowTest, GivesUpWhenPatienceIsOver) {
  attempts_ = {
      {{StateEvent(0, v1::Job::QUEUED)}, absl::UnavailableError("away")}};
  const auto job = FollowJob(hooks_, absl::Minutes(10));
  EXPECT_EQ(job.status(), absl::UnavailableError("away"));
  EXPECT_EQ(now_ - absl::UnixEpoch(), absl::Minutes(10));
  EXPECT_EQ(lost_, 1);
  EXPECT_LT(asked_.size(), 130u);
}

TEST_F(FollowTest, WithoutPatienceItDoesNotTryAgain) {
  EXPECT_FALSE(FollowJob(hooks_, absl::ZeroDuration()).ok());
  EXPECT_THAT(asked_, ElementsAre(0));
}

TEST_F(FollowTest, OtherErrorsEndItAtOnce) {
  attempts_ = {{{}, absl::NotFoundError("no such job")}};
  EXPECT_EQ(FollowJob(hooks_, absl::Minutes(1)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(shown_, IsEmpty());
}

TEST_F(FollowTest, MissingEventsAreAnError) {
  attempts_ = {{{StateEvent(1, v1::Job::RUNNING)}, absl::OkStatus()}};
  EXPECT_EQ(FollowJob(hooks_, absl::Minutes(1)).status().code(),
            absl::StatusCode::kDataLoss);
  asked_.clear();
  attempts_ = {{{StateEvent(0, v1::Job::RUNNING)}, absl::OkStatus()}};
  EXPECT_EQ(FollowJob(hooks_, absl::Minutes(1)).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(ReconnectionTest, WaitsTwiceAsLongEachTimeAndAnewOnceHeard) {
  Reconnection reconnection(absl::Seconds(8));
  const absl::Time start = absl::UnixEpoch();
  for (int ms : {200, 400, 800, 1600, 3200, 5000, 5000}) {
    EXPECT_EQ(reconnection.NextDelay(start), absl::Milliseconds(ms));
  }
  EXPECT_EQ(reconnection.NextDelay(start + absl::Seconds(7)), absl::Seconds(1));
  EXPECT_EQ(reconnection.NextDelay(start + absl::Seconds(8)), std::nullopt);
  reconnection.Heard();
  EXPECT_EQ(reconnection.NextDelay(start + absl::Seconds(9)),
            absl::Milliseconds(200));
}

}  // namespace
}  // namespace recurve::cli
