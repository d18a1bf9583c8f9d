#include "engine/serve/backlog_estimate.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

struct Request {
  std::vector<int64_t> lengths;  // of its sequences
  uint64_t flow = 1;
  absl::Time deadline = absl::InfiniteFuture();
  int priority = 2;
};

struct Queue {
  std::vector<Request> waiting;  // in the order of their arrival
  BatchLimits limits;
  bool may_cut = true;
};

WaitingSequence Sequence(const Queue& queue, const Request& request,
                         int64_t rows, int64_t arrival) {
  return {rows,        queue.may_cut, request.priority, request.deadline,
          At(arrival), request.flow};
}

QueuedRequest Summary(const Queue& queue, const Request& request,
                      int64_t arrival) {
  QueuedRequest summary;
  summary.longest = Sequence(
      queue, request,
      *std::max_element(request.lengths.begin(), request.lengths.end()),
      arrival);
  for (const int64_t length : request.lengths) summary.rows += length;
  summary.sequences = static_cast<int64_t>(request.lengths.size());
  return summary;
}

// Of `request`, which comes last.
int64_t Before(const Queue& queue, const Request& request) {
  const auto arrival = static_cast<int64_t>(queue.waiting.size());
  BacklogEstimate before(Summary(queue, request, arrival), queue.limits);
  for (int64_t i = 0; i < arrival; ++i) {
    before.Add(Summary(queue, queue.waiting[i], i));
  }
  return before.rows();
}

// The same by running it: the rows of all passes until the request is done, but
// for its own.
int64_t Simulated(const Queue& queue, const Request& request) {
  std::vector<WaitingSequence> waiting;
  std::vector<bool> is_asked;
  std::vector<Request> requests = queue.waiting;
  requests.push_back(request);
  int64_t own = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const int64_t length : requests[i].lengths) {
      waiting.push_back(
          Sequence(queue, requests[i], length, static_cast<int64_t>(i)));
      is_asked.push_back(i + 1 == requests.size());
      own += is_asked.back() ? length : 0;
    }
  }
  int64_t all = 0, left = own;
  while (left > 0) {
    std::vector<WaitingSequence> offered;
    std::vector<size_t> index;
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].rows == 0) continue;
      offered.push_back(waiting[i]);
      index.push_back(i);
    }
    for (const BatchPick& pick :
         PlanBatch(offered, queue.limits, At(1000)).picks) {
      waiting[index[pick.index]].rows -= pick.rows;
      all += pick.rows;
      left -= is_asked[index[pick.index]] ? pick.rows : 0;
    }
  }
  return all - own;
}

BatchLimits Limits(int64_t rows, int64_t chunk, int64_t least_chunk) {
  BatchLimits limits;
  limits.max_rows = rows;
  limits.max_chunk_rows = std::min(chunk, rows);
  limits.min_chunk_rows = least_chunk;
  return limits;
}

// Ten sequences of any length fill half of a pass, and each flow has five rows
// of it at least.
Queue SmallQueue(std::vector<Request> waiting) {
  return {std::move(waiting), Limits(100, 20, 5)};
}

TEST(BacklogEstimateTest, NothingWaitsAndNothingGoesBefore) {
  EXPECT_EQ(Before(SmallQueue({}), {{500}}), 0);
}

TEST(BacklogEstimateTest, OfItsFlowWhoseTurnIsEarlierGoesBefore) {
  const Request request = {{10}, 1, At(10)};
  EXPECT_EQ(
      Before(
          SmallQueue(
              {{{6}, 1, At(5)}, {{7, 1}, 1, At(9)}, {{8}, 1, At(20)}, {{9}}}),
          request),
      6 + 8);
  // By what is left, and then by age.
  EXPECT_EQ(Before(SmallQueue({{{3}, 1, At(5)},
                               {{9}, 1, At(10)},
                               {{10}, 1, At(10)},
                               {{11}, 1, At(10)}}),
                   request),
            3 + 9 + 10);
}

TEST(BacklogEstimateTest, WhoCameFirstHasOneChunkBesides) {
  const std::vector<Request> bulk(10, Request{{500}});
  EXPECT_EQ(Before(SmallQueue(bulk), {{10}, 1, At(10)}), 20);
}

TEST(BacklogEstimateTest, ALongOneHasAChunkForEachOfTheRequests) {
  const Queue queue = SmallQueue({{{500}, 1, At(5)}});
  EXPECT_EQ(Before(queue, {{10}, 1, At(10)}), 20);
  EXPECT_EQ(Before(queue, {{50}, 1, At(10)}), 60);
}

// Four chunks of 20 leave room for the request.
TEST(BacklogEstimateTest, OfManyLongOnesFourAreNotDoneWhenItIs) {
  const std::vector<Request> bulk(40, Request{{500}, 1, At(5)});
  EXPECT_EQ(Before(SmallQueue(bulk), {{10}, 1, At(10)}), 36 * 500 + 4 * 20);
}

TEST(BacklogEstimateTest, HigherPrioritiesGoBeforeAndLowerOnesDoNot) {
  EXPECT_EQ(Before(SmallQueue({{{15}, 1, At(20), 1},
                               {{16, 2}, 2, At(20), 1},
                               {{17}, 1, At(5), 3},
                               {{18}, 3, At(5), 3}}),
                   {{10}, 1, At(10)}),
            15 + 18);
}

// But for a sixth: shares of five rows and more may differ by one.
TEST(BacklogEstimateTest, OtherFlowsHaveAsMuchAsItsOwn) {
  EXPECT_EQ(Before(SmallQueue({{{500}, 2}, {{5}, 3}, {{500, 500}, 4}}),
                   {{12}, 1, At(10)}),
            10 + 5 + 10);
  EXPECT_EQ(Before(SmallQueue({{{500}, 2}, {{5}, 3}, {{6}, 1, At(5)}}),
                   {{12}, 1, At(10)}),
            15 + 5 + 6);
}

// As the plan gives whoever wants least a part first.
TEST(BacklogEstimateTest, OfMoreFlowsThanCanShareThoseThatWantLessGoBefore) {
  std::vector<Request> waiting;
  for (uint64_t i = 0; i < 1000; ++i) waiting.push_back({{5}, 10 + i});
  EXPECT_EQ(Before(SmallQueue(waiting), {{5}}), 5 * 1000);
  // It is in the first pass.
  EXPECT_LE(Before(SmallQueue(waiting), {{4}}), 100);
}

TEST(BacklogEstimateTest, WhatIsNotCutAndLongerMayBePassedOver) {
  Queue queue = SmallQueue({{{60}, 1, At(5)}, {{30}, 1, At(6)}});
  queue.may_cut = false;
  EXPECT_EQ(Before(queue, {{40}, 1, At(10)}), 30);
}

// --- For all queues ---

class RandomQueues {
 public:
  explicit RandomQueues(bool may_cut) : may_cut_(may_cut) {}

  template <typename Check>
  void ForEach(const Check& check) {
    for (int i = 0; i < 3000; ++i) {
      SCOPED_TRACE(i);
      Queue queue;
      queue.may_cut = may_cut_;
      queue.limits = Limits(Draw(100), Draw(40), Draw(8));
      if (Draw(4) == 1) queue.limits.max_sequences = Draw(20);
      flows_ = Draw(12);
      longest_ = Draw(300);
      const int64_t requests = Draw(40) - 1;
      for (int64_t r = 0; r < requests; ++r) queue.waiting.push_back(Draw());
      check(queue, Draw());
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  int64_t Draw(int64_t most) {
    return static_cast<int64_t>(random_() % static_cast<uint32_t>(most)) + 1;
  }
  Request Draw() {
    Request request;
    request.lengths.resize(Draw(3) == 1 ? Draw(6) : 1);
    for (int64_t& length : request.lengths) {
      length = Draw(3) == 1 ? Draw(longest_) : Draw(20);
    }
    request.flow = Draw(flows_);
    request.priority = static_cast<int>(Draw(3) == 1 ? Draw(3) : 2);
    if (Draw(2) == 1) request.deadline = At(2000 + Draw(20));
    return request;
  }

  const bool may_cut_;
  std::mt19937 random_{1};
  int64_t flows_ = 1;
  int64_t longest_ = 1;
};

TEST(BacklogEstimateTest, CountsNoMoreThanRunsBeforeAndAPass) {
  for (const bool may_cut : {true, false}) {
    RandomQueues(may_cut).ForEach(
        [](const Queue& queue, const Request& request) {
          EXPECT_LE(Before(queue, request),
                    Simulated(queue, request) + queue.limits.max_rows);
        });
  }
}

// The common case: clients of one flow, each with a deadline as far ahead.
TEST(BacklogEstimateTest, InTheOrderOfDeadlinesItIsOffByAPassAtMost) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    Queue queue;
    queue.limits = Limits(256, 64, 16);
    const auto draw = [&](int64_t arrival) {
      return Request{{1 + static_cast<int64_t>(random() % 128)},
                     /*flow=*/1,
                     At(2000 + arrival)};
    };
    const int64_t requests = 1 + random() % 100;
    for (int64_t r = 0; r < requests; ++r) queue.waiting.push_back(draw(r));
    const Request request = draw(requests);
    EXPECT_NEAR(static_cast<double>(Before(queue, request)),
                static_cast<double>(Simulated(queue, request)), 256);
  }
}

}  // namespace
}  // namespace recurve
