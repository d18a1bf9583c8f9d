#include "engine/serve/cut.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

std::vector<int64_t> Offsets(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

CutOptions Rows(int64_t max_rows, bool in_time = true, int64_t call_rows = 0) {
  CutOptions options;
  options.max_rows = max_rows;
  options.in_time = in_time;
  options.call_rows = call_rows;
  return options;
}

TEST(CutTest, PacksWholeSequencesUpToTheLimit) {
  const auto chains = CutBatch(Offsets({3, 4, 2, 1}), Rows(7));
  ASSERT_EQ(chains.size(), 2u);
  ASSERT_EQ(chains[0].size(), 1u);
  EXPECT_EQ(chains[0][0].num_sequences, 2);
  EXPECT_EQ(chains[0][0].num_rows, 7);
  EXPECT_EQ(chains[1][0].first_sequence, 2);
  EXPECT_EQ(chains[1][0].first_row, 7);
  EXPECT_EQ(chains[1][0].num_rows, 3);
}

TEST(CutTest, CutsALongSequenceInTimeWithoutBeginningNewCalls) {
  const auto chains = CutBatch(Offsets({2, 10, 1}), Rows(4));
  ASSERT_EQ(chains.size(), 3u);
  ASSERT_EQ(chains[1].size(), 3u);
  EXPECT_TRUE(chains[1][0].begins_call);
  EXPECT_FALSE(chains[1][1].begins_call);
  EXPECT_FALSE(chains[1][2].begins_call);
  EXPECT_EQ(chains[1][2].first_row, 10);
  EXPECT_EQ(chains[1][2].num_rows, 2);
}

TEST(CutTest, LeavesASequenceWholeWhereTimeMayNotBeCut) {
  const auto chains = CutBatch(Offsets({2, 10, 1}), Rows(4, false));
  ASSERT_EQ(chains.size(), 3u);
  ASSERT_EQ(chains[1].size(), 1u);
  EXPECT_EQ(chains[1][0].num_rows, 10);
}

TEST(CutTest, BeginsACallEveryCallRows) {
  const auto chains = CutBatch(Offsets({10}), Rows(4, true, 6));
  ASSERT_EQ(chains.size(), 1u);
  ASSERT_EQ(chains[0].size(), 3u);  // 4 + 2, 4
  EXPECT_TRUE(chains[0][0].begins_call);
  EXPECT_FALSE(chains[0][1].begins_call);
  EXPECT_TRUE(chains[0][2].begins_call);
}

TEST(CutTest, EveryRowIsInExactlyOneChunkInOrder) {
  for (int64_t max_rows : {1, 2, 3, 7, 100}) {
    for (int64_t call_rows : {0, 1, 5, 1000}) {
      const auto offsets = Offsets({1, 9, 3, 3, 27, 1, 1, 1});
      int64_t row = 0;
      for (const Chain& chain :
           CutBatch(offsets, Rows(max_rows, true, call_rows))) {
        for (const Chunk& chunk : chain) {
          EXPECT_EQ(chunk.first_row, row);
          EXPECT_GE(chunk.num_rows, 1);
          EXPECT_LE(chunk.num_rows, max_rows);
          EXPECT_LE(offsets[chunk.first_sequence], chunk.first_row);
          EXPECT_GE(offsets[chunk.first_sequence + chunk.num_sequences],
                    chunk.first_row + chunk.num_rows);
          row += chunk.num_rows;
        }
      }
      EXPECT_EQ(row, offsets.back());
    }
  }
}

}  // namespace
}  // namespace recurve
