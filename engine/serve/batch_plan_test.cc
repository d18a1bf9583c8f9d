#include "engine/serve/batch_plan.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {

bool operator==(const BatchPick& a, const BatchPick& b) {
  return a.index == b.index && a.rows == b.rows;
}
void PrintTo(const BatchPick& pick, std::ostream* os) {
  *os << pick.index << ": " << pick.rows;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

absl::Time At(int64_t seconds) { return absl::FromUnixSeconds(seconds); }

WaitingSequence Sequence(int64_t rows, uint64_t flow, int64_t arrival = 0) {
  WaitingSequence sequence;
  sequence.rows = rows;
  sequence.flow = flow;
  sequence.arrival = At(arrival);
  return sequence;
}

WaitingSequence Uncut(int64_t rows, uint64_t flow, int64_t arrival = 0) {
  WaitingSequence sequence = Sequence(rows, flow, arrival);
  sequence.may_cut = false;
  return sequence;
}

BatchLimits Limits(int64_t rows, int64_t sequences = 100,
                   int64_t chunk = 1000) {
  BatchLimits limits;
  limits.max_rows = rows;
  limits.max_sequences = sequences;
  limits.max_chunk_rows = chunk;
  limits.min_chunk_rows = 2;
  return limits;
}

std::vector<BatchPick> Picks(const std::vector<WaitingSequence>& waiting,
                             const BatchLimits& limits) {
  return PlanBatch(waiting, limits, At(1000)).picks;
}

TEST(BatchPlanTest, NothingWaitsAndNothingIsPicked) {
  const BatchPlan plan = PlanBatch({}, Limits(8), At(0));
  EXPECT_THAT(plan.picks, IsEmpty());
  EXPECT_EQ(plan.wait_until, absl::InfiniteFuture());
}

TEST(BatchPlanTest, AllThatFitsGoesTogether) {
  EXPECT_THAT(
      Picks({Sequence(3, 1), Sequence(1, 2), Sequence(4, 3)}, Limits(8)),
      ElementsAre(BatchPick{0, 3}, BatchPick{1, 1}, BatchPick{2, 4}));
}

TEST(BatchPlanTest, WhoWantsLittleHasItWholeAndTheOthersEqualParts) {
  EXPECT_THAT(Picks({Sequence(100, 1), Sequence(2, 2), Sequence(100, 3),
                     Sequence(5, 4)},
                    Limits(27)),
              ElementsAre(BatchPick{0, 10}, BatchPick{1, 2}, BatchPick{2, 10},
                          BatchPick{3, 5}));
}

TEST(BatchPlanTest, WhatCannotBeSharedGoesToWhoCameFirst) {
  EXPECT_THAT(Picks({Sequence(100, 1, 5), Sequence(100, 2, 4)}, Limits(7)),
              ElementsAre(BatchPick{0, 3}, BatchPick{1, 4}));
}

TEST(BatchPlanTest, AFlowOfManySequencesGetsNoMoreThanOneOfOne) {
  std::vector<WaitingSequence> waiting(9, Sequence(4, 1));
  waiting.push_back(Sequence(40, 2));
  std::map<uint64_t, int64_t> rows;
  for (const BatchPick& pick : Picks(waiting, Limits(20))) {
    rows[waiting[pick.index].flow] += pick.rows;
  }
  EXPECT_EQ(rows[1], 10);
  EXPECT_EQ(rows[2], 10);
}

TEST(BatchPlanTest, ALongSequenceIsCutShortWhileOthersWait) {
  const BatchLimits limits = Limits(100, 100, 16);
  EXPECT_THAT(Picks({Sequence(500, 1)}, limits),
              ElementsAre(BatchPick{0, 100}));
  EXPECT_THAT(Picks({Sequence(500, 1), Sequence(1, 2)}, limits),
              ElementsAre(BatchPick{0, 16}, BatchPick{1, 1}));
}

TEST(BatchPlanTest, PrioritiesAreStrict) {
  std::vector<WaitingSequence> waiting = {Sequence(6, 1), Sequence(6, 2),
                                          Sequence(6, 3)};
  waiting[0].priority = 3;
  waiting[1].priority = 2;
  waiting[2].priority = 1;
  EXPECT_THAT(Picks(waiting, Limits(8)),
              ElementsAre(BatchPick{1, 2}, BatchPick{2, 6}));
}

TEST(BatchPlanTest, InsideAFlowTheEarliestDeadlineGoesFirst) {
  std::vector<WaitingSequence> waiting = {Sequence(4, 1, 1), Sequence(4, 1, 2),
                                          Sequence(4, 1, 3), Sequence(4, 1, 4)};
  waiting[2].deadline = At(20);
  waiting[3].deadline = At(10);
  // The first of all, whatever the deadlines are, so that it does not starve.
  EXPECT_THAT(Picks(waiting, Limits(8)),
              ElementsAre(BatchPick{0, 4}, BatchPick{3, 4}));
  EXPECT_THAT(Picks(waiting, Limits(12)),
              ElementsAre(BatchPick{0, 4}, BatchPick{2, 4}, BatchPick{3, 4}));
}

TEST(BatchPlanTest, ShortOnesDoNotWaitForTheLongOnesOfTheirFlow) {
  EXPECT_THAT(Picks({Sequence(500, 1, 0), Sequence(500, 1, 1),
                     Sequence(2, 1, 2), Sequence(1, 1, 3)},
                    Limits(20, 100, 10)),
              ElementsAre(BatchPick{0, 10}, BatchPick{1, 7}, BatchPick{2, 2},
                          BatchPick{3, 1}));
}

TEST(BatchPlanTest, MoreFlowsThanHaveRoomGoInTheOrderOfTheirArrival) {
  const std::vector<WaitingSequence> waiting = {
      Sequence(9, 1, 3), Sequence(9, 2, 2), Sequence(9, 3, 1),
      Sequence(1, 4, 4)};
  EXPECT_THAT(Picks(waiting, Limits(5)),
              ElementsAre(BatchPick{1, 2}, BatchPick{2, 2}, BatchPick{3, 1}));
}

TEST(BatchPlanTest, WhatIsNotCutIsAloneIfItIsTooLong) {
  EXPECT_THAT(Picks({Sequence(3, 2, 1), Uncut(20, 1, 0)}, Limits(8)),
              ElementsAre(BatchPick{1, 20}));
  EXPECT_THAT(Picks({Sequence(3, 2, 0), Uncut(20, 1, 1)}, Limits(8)),
              ElementsAre(BatchPick{0, 3}));
}

TEST(BatchPlanTest, WhatIsNotCutGoesWhereItFits) {
  // More than its share, but nobody else has use for it.
  EXPECT_THAT(Picks({Sequence(1, 1), Sequence(1, 2), Uncut(6, 3), Uncut(7, 4)},
                    Limits(8)),
              ElementsAre(BatchPick{0, 1}, BatchPick{1, 1}, BatchPick{2, 6}));
}

TEST(BatchPlanTest, APassThatIsNotFullWaitsForMore) {
  BatchLimits limits = Limits(8, 3);
  limits.timeout = absl::Seconds(10);
  std::vector<WaitingSequence> waiting = {Sequence(2, 1, 100),
                                          Sequence(2, 2, 95)};
  BatchPlan plan = PlanBatch(waiting, limits, At(101));
  EXPECT_THAT(plan.picks, IsEmpty());
  EXPECT_EQ(plan.wait_until, At(105));
  EXPECT_EQ(PlanBatch(waiting, limits, At(105)).picks.size(), 2u);
  waiting[0].deadline = At(102);  // has two seconds
  EXPECT_EQ(PlanBatch(waiting, limits, At(100)).wait_until, At(101));
  waiting[0].rows = 6;
  EXPECT_EQ(PlanBatch(waiting, limits, At(100)).picks.size(), 2u);
  waiting[0].rows = 1;
  waiting.push_back(Sequence(1, 3, 100));
  EXPECT_EQ(PlanBatch(waiting, limits, At(100)).picks.size(), 3u);
}

TEST(BatchPlanTest, PaddingCostsTheLongest) {
  BatchLimits limits = Limits(16);
  limits.pad_to_longest = true;
  EXPECT_THAT(Picks({Sequence(2, 1, 1), Sequence(5, 2, 2), Sequence(3, 3, 3),
                     Sequence(1, 4, 4)},
                    limits),
              ElementsAre(BatchPick{0, 2}, BatchPick{1, 5}, BatchPick{2, 3}));
  EXPECT_THAT(Picks({Sequence(40, 1)}, limits), ElementsAre(BatchPick{0, 40}));
}

// --- For all inputs ---

struct Case {
  std::vector<WaitingSequence> waiting;
  BatchLimits limits;
};

Case RandomCase(std::mt19937& random) {
  const auto up_to = [&](int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint32_t>(most)) + 1;
  };
  Case c;
  c.limits = Limits(up_to(60), up_to(30), up_to(40));
  c.limits.min_chunk_rows = up_to(8);
  const int64_t flows = up_to(40);
  const bool cuts = up_to(2) == 1;
  const int64_t count = up_to(60);
  for (int64_t i = 0; i < count; ++i) {
    WaitingSequence sequence = Sequence(up_to(3) == 1 ? up_to(100) : up_to(5),
                                        up_to(flows), up_to(20));
    sequence.may_cut = cuts || up_to(4) > 1;
    sequence.priority = static_cast<int>(up_to(3));
    if (up_to(3) == 1) sequence.deadline = At(2000 + up_to(20));
    c.waiting.push_back(sequence);
  }
  return c;
}

int64_t MostRows(const Case& c, const WaitingSequence& sequence) {
  if (!sequence.may_cut || c.waiting.size() == 1) return sequence.rows;
  return std::min(sequence.rows, c.limits.max_chunk_rows);
}

template <typename Check>
void ForRandomCases(const Check& check) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    SCOPED_TRACE(i);
    const Case c = RandomCase(random);
    std::vector<int64_t> rows(c.waiting.size());
    for (const BatchPick& pick : Picks(c.waiting, c.limits)) {
      rows[pick.index] += pick.rows;
    }
    check(c, rows);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(BatchPlanTest, NeverTakesMoreThanTheLimitsSay) {
  ForRandomCases([](const Case& c, const std::vector<int64_t>& rows) {
    int64_t all = 0, sequences = 0, alone = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_GE(rows[i], 0);
      EXPECT_LE(rows[i], MostRows(c, c.waiting[i]));
      if (rows[i] == 0) continue;
      all += rows[i];
      ++sequences;
      if (!c.waiting[i].may_cut) {
        EXPECT_EQ(rows[i], c.waiting[i].rows);
        alone += rows[i] > c.limits.max_rows;
      }
    }
    EXPECT_LE(sequences, c.limits.max_sequences);
    if (alone > 0) {
      EXPECT_EQ(sequences, 1);
    } else {
      EXPECT_LE(all, c.limits.max_rows);
    }
  });
}

TEST(BatchPlanTest, LeavesNoRoomForWhatWaits) {
  ForRandomCases([](const Case& c, const std::vector<int64_t>& rows) {
    int64_t left = c.limits.max_rows, sequences = c.limits.max_sequences;
    for (const int64_t taken : rows) {
      left -= taken;
      sequences -= taken > 0;
    }
    EXPECT_NE(left, c.limits.max_rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] == 0 && sequences == 0) continue;
      const int64_t more = MostRows(c, c.waiting[i]) - rows[i];
      if (more == 0) continue;
      EXPECT_LT(left, c.waiting[i].may_cut ? 1 : more) << i;
    }
  });
}

// So it has gone after finitely many passes, whoever comes later, and everyone
// is first at last.
TEST(BatchPlanTest, WhoCameFirstOfAllGetsOn) {
  ForRandomCases([](const Case& c, const std::vector<int64_t>& rows) {
    std::map<int, size_t> first;  // by priority
    std::set<int> served;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto [at, is_new] = first.emplace(c.waiting[i].priority, i);
      if (!is_new && c.waiting[i].arrival < c.waiting[at->second].arrival) {
        at->second = i;
      }
      if (rows[i] > 0) served.insert(c.waiting[i].priority);
    }
    const int highest = first.begin()->first;
    EXPECT_GT(rows[first[highest]], 0);
    for (const int priority : served) {
      if (!c.waiting[first[priority]].may_cut) continue;
      EXPECT_GT(rows[first[priority]], 0) << "priority " << priority;
    }
  });
}

// No row goes to a lower priority while a higher one could have it.
TEST(BatchPlanTest, NobodyIsHeldUpByALowerPriority) {
  ForRandomCases([](const Case& c, const std::vector<int64_t>& rows) {
    int64_t sequences = 0;
    for (const int64_t taken : rows) sequences += taken > 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const int64_t more = MostRows(c, c.waiting[i]) - rows[i];
      if (more == 0 || !c.waiting[i].may_cut) continue;
      for (size_t j = 0; j < rows.size(); ++j) {
        if (c.waiting[j].priority <= c.waiting[i].priority) continue;
        EXPECT_EQ(rows[j], 0) << j << " before " << i;
      }
    }
  });
}

// Where everything can be cut and rows are all that is short.
TEST(BatchPlanTest, SharesAreMaxMinFair) {
  std::mt19937 random(2);
  for (int i = 0; i < 5000; ++i) {
    SCOPED_TRACE(i);
    Case c = RandomCase(random);
    c.limits.max_sequences = 1000;
    c.limits.min_chunk_rows = 1;
    for (WaitingSequence& sequence : c.waiting) {
      sequence.may_cut = true;
      sequence.priority = 1;
    }
    std::map<uint64_t, int64_t> got, demand;
    for (const auto& sequence : c.waiting) {
      demand[sequence.flow] += MostRows(c, sequence);
    }
    for (const BatchPick& pick : Picks(c.waiting, c.limits)) {
      got[c.waiting[pick.index].flow] += pick.rows;
    }
    for (const auto& [flow, wanted] : demand) {
      if (got[flow] == wanted) continue;
      for (const auto& [other, rows] : got) {
        EXPECT_LE(rows, got[flow] + 1) << flow << " and " << other;
      }
    }
    if (testing::Test::HasFailure()) return;
  }
}

// However many others come meanwhile.
TEST(BatchPlanTest, NobodyStarves) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    Case c = RandomCase(random);
    for (WaitingSequence& sequence : c.waiting) sequence.priority = 1;
    const size_t watched = random() % c.waiting.size();
    int64_t now = 100, before = 0;
    for (const auto& sequence : c.waiting) before += sequence.rows;
    int64_t passes = 0;
    while (c.waiting[watched].rows > 0) {
      std::vector<WaitingSequence> left;
      std::vector<size_t> index;
      for (size_t j = 0; j < c.waiting.size(); ++j) {
        if (c.waiting[j].rows == 0) continue;
        left.push_back(c.waiting[j]);
        index.push_back(j);
      }
      for (const BatchPick& pick : Picks(left, c.limits)) {
        c.waiting[index[pick.index]].rows -= pick.rows;
      }
      // Newcomers, with deadlines that are near.
      for (int k = 0; k < 5; ++k) {
        WaitingSequence other = Sequence(1 + random() % 30, random() % 40, now);
        other.may_cut = random() % 3 > 0;
        other.deadline = At(1001);
        c.waiting.push_back(other);
      }
      ++now;
      ASSERT_LE(++passes, before) << "case " << i;
    }
  }
}

}  // namespace
}  // namespace recurve
