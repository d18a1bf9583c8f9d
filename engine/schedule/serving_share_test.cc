#include "engine/schedule/serving_share.h"

#include <random>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

// Time that each class has had, in seconds.
struct Had {
  double serving = 0;
  double training = 0;
};

// A device on which both classes have work all the time, tasks of random
// length up to these.
class BusyDevice {
 public:
  BusyDevice(double share, double longest_serving, double longest_training,
             unsigned seed)
      : policy_(share),
        longest_serving_(longest_serving),
        longest_training_(longest_training),
        random_(seed) {}

  TaskClass RunNext() {
    const bool serves = policy_.ServesNext();
    const double longest = serves ? longest_serving_ : longest_training_;
    const double length =
        std::uniform_real_distribution<double>(0, longest)(random_);
    (serves ? had.serving : had.training) += length;
    const TaskClass ran = serves ? TaskClass::kServing : TaskClass::kTraining;
    policy_.Took(ran, absl::Seconds(length));
    return ran;
  }

  Had had;

 private:
  ServingShare policy_;
  const double longest_serving_, longest_training_;
  std::mt19937 random_;
};

TEST(ServingShareTest, NeitherIsAheadByMoreThanATask) {
  for (double share : {0.01, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const double longest_serving = seed % 2 == 0 ? 0.01 : 1;
      const double longest_training = seed % 3 == 0 ? 0.02 : 0.7;
      BusyDevice device(share, longest_serving, longest_training, seed);
      for (int i = 0; i < 2000; ++i) {
        device.RunNext();
        const double all = device.had.serving + device.had.training;
        const double lead = device.had.serving - share * all;
        ASSERT_LE(lead, longest_serving + 1e-6) << share << " " << seed;
        ASSERT_GE(lead, -longest_training - 1e-6) << share << " " << seed;
      }
    }
  }
}

// What a class is behind its share when its turn is over is less than its own
// last task brought the other: after that time it has its turn again.
TEST(ServingShareTest, NobodyWaitsForeverUnlessTheShareIsAll) {
  constexpr double kServing = 0.01, kTraining = 0.1;
  for (double share : {0.05, 0.5, 0.9, 0.99}) {
    BusyDevice device(share, kServing, kTraining, 1);
    const double longest_served =
        kServing + kTraining * share / (1 - share) + 1e-6;
    const double longest_trained =
        kTraining + kServing * (1 - share) / share + 1e-6;
    Had since;  // when the other class had its last turn
    for (int i = 0; i < 20000; ++i) {
      if (device.RunNext() == TaskClass::kServing) {
        since.training = device.had.training;
      } else {
        since.serving = device.had.serving;
      }
      ASSERT_LE(device.had.serving - since.serving, longest_served) << share;
      ASSERT_LE(device.had.training - since.training, longest_trained) << share;
    }
  }
}

TEST(ServingShareTest, AShareOfOneServesWheneverSomethingWaits) {
  BusyDevice device(1, 0.01, 0.1, 1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(device.RunNext(), TaskClass::kServing);
  }
}

TEST(ServingShareTest, ServingComesFirstAtTheStart) {
  EXPECT_TRUE(ServingShare(0.01).ServesNext());
}

// Light traffic that always gets what it asks for saves nothing up.
TEST(ServingShareTest, WhatAClassDidNotWantIsForgotten) {
  ServingShare policy(0.5);
  for (int i = 0; i < 100; ++i) {
    policy.Took(TaskClass::kTraining, absl::Milliseconds(50));
    EXPECT_TRUE(policy.ServesNext());
    policy.Took(TaskClass::kServing, absl::Milliseconds(1));
    policy.Idle(TaskClass::kServing);
  }
  policy.Took(TaskClass::kServing, absl::Milliseconds(1));
  EXPECT_FALSE(policy.ServesNext());

  policy.Took(TaskClass::kServing, absl::Seconds(100));
  policy.Idle(TaskClass::kServing);
  EXPECT_FALSE(policy.ServesNext());  // it is training that waited
  policy.Idle(TaskClass::kTraining);
  EXPECT_TRUE(policy.ServesNext());
}

}  // namespace
}  // namespace recurve
