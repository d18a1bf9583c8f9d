#include "engine/jobs/job_queue.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(double hours) {
  return absl::UnixEpoch() + absl::Hours(1) * hours;
}

TEST(StartOrderTest, AnEmptyQueueStartsNothing) {
  EXPECT_THAT(StartOrder({}, {}), IsEmpty());
}

TEST(StartOrderTest, AnOwnersJobsStartAsSubmitted) {
  EXPECT_THAT(StartOrder({{"a", 0, 7}, {"a", 0, 3}, {"a", 0, 5}}, {}),
              ElementsAre(1, 2, 0));
}

TEST(StartOrderTest, PriorityGoesBeforeEverything) {
  const OwnerShares shares = {{"busy", {9, 1000}}};
  EXPECT_THAT(
      StartOrder({{"idle", 0, 1}, {"busy", 1, 2}, {"idle", -100, 0}}, shares),
      ElementsAre(1, 0, 2));
}

TEST(StartOrderTest, FewestRunningThenLeastUsedThenOldest) {
  const std::vector<QueuedJob> queued = {
      {"runs", 0, 1}, {"used", 0, 2}, {"young", 0, 4}, {"old", 0, 3}};
  const OwnerShares shares = {{"runs", {1, 0}}, {"used", {0, 5}}};
  EXPECT_THAT(StartOrder(queued, shares), ElementsAre(3, 2, 1, 0));
}

TEST(StartOrderTest, OwnersTakeTurns) {
  const std::vector<QueuedJob> queued = {
      {"a", 0, 1}, {"a", 0, 2}, {"a", 0, 3}, {"b", 0, 4}, {"b", 0, 5}};
  EXPECT_THAT(StartOrder(queued, {}), ElementsAre(0, 3, 1, 4, 2));
}

// The rule of the header in its plainest form: the best of all that are left,
// again and again.
std::vector<size_t> SlowStartOrder(const std::vector<QueuedJob>& queued,
                                   OwnerShares shares) {
  const auto before = [&](size_t a, size_t b) {
    const QueuedJob &x = queued[a], &y = queued[b];
    const OwnerShare &s = shares[x.owner], &t = shares[y.owner];
    if (x.priority != y.priority) return x.priority > y.priority;
    if (s.running != t.running) return s.running < t.running;
    if (s.use != t.use) return s.use < t.use;
    return x.order < y.order;
  };
  std::set<size_t> left;
  for (size_t i = 0; i < queued.size(); ++i) left.insert(i);
  std::vector<size_t> order;
  while (!left.empty()) {
    const size_t next = *std::min_element(left.begin(), left.end(), before);
    order.push_back(next);
    left.erase(next);
    ++shares[queued[next].owner].running;
  }
  return order;
}

TEST(StartOrderTest, IsTheRuleAppliedAgainAndAgainInWhateverOrderJobsAreGiven) {
  std::mt19937 random(1);
  const auto draw = [&random](int n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    OwnerShares shares;
    for (int i = draw(5); i > 0; --i) {
      shares[absl::StrCat(draw(6))] = {draw(3), draw(4) * 0.5};
    }
    std::vector<QueuedJob> queued;
    const int count = draw(30);
    for (int i = 0; i < count; ++i) {
      queued.push_back({absl::StrCat(draw(6)), draw(3) - 1, i});
    }
    std::shuffle(queued.begin(), queued.end(), random);
    const std::vector<size_t> order = StartOrder(queued, shares);
    ASSERT_EQ(order, SlowStartOrder(queued, shares)) << "round " << round;

    std::vector<QueuedJob> shuffled = queued;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const std::vector<size_t> again = StartOrder(shuffled, shares);
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(queued[order[i]].order, shuffled[again[i]].order);
    }
  }
}

// One place; every owner always has a job waiting. Times are hours.
class OnePlace {
 public:
  explicit OnePlace(std::vector<double> hours_of_jobs)
      : hours_(std::move(hours_of_jobs)), used_(hours_.size()) {
    for (size_t owner = 0; owner < hours_.size(); ++owner) Submit(owner);
  }

  UseMeter& meter() { return meter_; }
  const std::vector<double>& used() const { return used_; }

  // The next job, from its start to its end; returns its owner.
  size_t Run() {
    OwnerShares shares;
    for (size_t i = 0; i < hours_.size(); ++i) {
      shares[Name(i)].use = meter_.Use(Name(i), now_);
    }
    const size_t first = StartOrder(queued_, shares).front();
    const std::string name = queued_[first].owner;
    const size_t owner = static_cast<size_t>(std::stoi(name));
    queued_.erase(queued_.begin() + static_cast<int64_t>(first));
    now_ += absl::Hours(1) * hours_[owner];
    meter_.Add(name, 3600 * hours_[owner], now_);
    used_[owner] += hours_[owner];
    Submit(owner);
    return owner;
  }

  static std::string Name(size_t owner) { return absl::StrCat(owner); }

 private:
  void Submit(size_t owner) { queued_.push_back({Name(owner), 0, order_++}); }

  const std::vector<double> hours_;
  std::vector<double> used_;
  std::vector<QueuedJob> queued_;
  UseMeter meter_;
  absl::Time now_ = At(0);
  int64_t order_ = 0;
};

// What an owner who has one device for ever has used of late.
double MostUseHours() {
  return absl::ToDoubleHours(UseMeter::kHalfLife) / std::log(2.0);
}

// Their uses of late never differ by more than the longest job.
TEST(FairnessTest, OwnersOfLongAndOfShortJobsGetTheSameHours) {
  OnePlace place({0.01, 0.05, 0.2});
  for (int i = 0; i < 20'000; ++i) place.Run();
  const double tolerance = 0.2 / (MostUseHours() / 3);
  for (double used : place.used()) {
    EXPECT_NEAR(used, place.used()[0], tolerance * place.used()[0]);
  }
}

// Who had the device for ever waits while 3 newcomers use what he has left of
// his use after two half-lives: a quarter of the most there is.
TEST(FairnessTest, NobodyStarves) {
  OnePlace place({0.1, 0.1, 0.1, 0.1});
  place.meter().Add("0", 3600 * MostUseHours(), At(0));
  int waited = 0;
  while (place.Run() != 0) ++waited;
  EXPECT_NEAR(waited, 2 * absl::ToDoubleHours(UseMeter::kHalfLife) / 0.1, 3);
  for (int round = 0; round < 1000; ++round) {
    std::set<size_t> served;
    for (int i = 0; i < 6; ++i) served.insert(place.Run());
    ASSERT_EQ(served.size(), 4u);
  }
}

TEST(UseMeterTest, CountsHalfAfterAHalfLife) {
  UseMeter meter;
  EXPECT_EQ(meter.Use("a", At(0)), 0);
  meter.Add("a", 8, At(0));
  EXPECT_EQ(meter.Use("a", At(0)), 8);
  EXPECT_DOUBLE_EQ(meter.Use("a", At(6)), 4);
  meter.Add("a", 1, At(12));
  EXPECT_DOUBLE_EQ(meter.Use("a", At(18)), 1.5);
  EXPECT_EQ(meter.Use("b", At(18)), 0);
}

TEST(UseMeterTest, AClockThatJumpsBackMakesNoUse) {
  UseMeter meter;
  meter.Add("a", 8, At(10));
  EXPECT_EQ(meter.Use("a", At(0)), 8);
  meter.Add("a", 1, At(0));
  EXPECT_EQ(meter.Use("a", At(10)), 9);
  EXPECT_DOUBLE_EQ(meter.Use("a", At(16)), 4.5);
}

}  // namespace
}  // namespace recurve
