#include "engine/serve/version_queue.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

BatchLimits Limits() {
  BatchLimits limits;
  limits.max_rows = 100;
  limits.max_chunk_rows = 20;
  limits.min_chunk_rows = 5;
  return limits;
}

// Comes one second after the one before.
class Requests {
 public:
  Pending New(const std::vector<int64_t>& lengths, const std::string& flow,
              absl::Time deadline = absl::InfiniteFuture(), int priority = 2) {
    BatcherRequest request;
    for (const int64_t length : lengths) {
      request.batch.cu_seqlens.push_back(request.batch.cu_seqlens.back() +
                                         length);
    }
    request.flow = flow;
    request.control.deadline = deadline;
    request.priority = priority;
    return std::make_shared<PendingRequest>(std::move(request),
                                            At(1000 + ++arrivals_));
  }

 private:
  int64_t arrivals_ = 0;
};

TEST(VersionQueueTest, AShortRequestWithADeadlineGoesBeforeItsFlowsBacklog) {
  Requests requests;
  VersionQueue queue(Limits(), /*cuts_in_time=*/true, /*carry_size=*/1);
  for (int i = 0; i < 10; ++i) queue.Add(requests.New({500}, "a"));
  // A chunk of who came first.
  EXPECT_EQ(queue.RowsBefore(*requests.New({10}, "a", At(2000))), 20);
  // Without one it is no longer than a chunk, but those of others are.
  EXPECT_EQ(queue.RowsBefore(*requests.New({10}, "a")), 20);
  EXPECT_EQ(queue.RowsBefore(*requests.New({500}, "a")), 6 * 500 + 4 * 500);
}

TEST(VersionQueueTest, RowsBeforeAreThoseOfEarlierTurnsAndHigherPriorities) {
  Requests requests;
  VersionQueue queue(Limits(), /*cuts_in_time=*/true, /*carry_size=*/1);
  queue.Add(requests.New({3, 4}, "a", At(1900)));
  queue.Add(requests.New({8}, "a", At(2100)));
  queue.Add(requests.New({16}, "b", absl::InfiniteFuture(), /*priority=*/1));
  queue.Add(requests.New({32}, "a", At(1900), /*priority=*/3));
  EXPECT_EQ(queue.RowsBefore(*requests.New({10}, "a", At(2000))), 7 + 16);
}

TEST(VersionQueueTest, WhatHasRunOrGivenUpIsNotBefore) {
  Requests requests;
  VersionQueue queue(Limits(), /*cuts_in_time=*/true, /*carry_size=*/1);
  queue.Add(requests.New({110}, "a", At(1900)));
  VersionQueue::Taken taken = queue.Take(0, 0, At(1500));
  ASSERT_EQ(taken.parts.size(), 1u);
  EXPECT_EQ(taken.parts[0].rows, 100);
  queue.Add(requests.New({7}, "a", At(1800)));
  const Pending request = requests.New({10}, "a", At(2000));
  EXPECT_EQ(queue.RowsBefore(*request), 10 + 7);
  EXPECT_EQ(queue.Return(std::move(taken.parts), {absl::OkStatus()}, {}).size(),
            0u);
  EXPECT_EQ(queue.RowsBefore(*request), 10 + 7);
  EXPECT_EQ(queue.Expire(At(1850)).size(), 1u);
  EXPECT_EQ(queue.RowsBefore(*request), 10);
}

}  // namespace
}  // namespace recurve
