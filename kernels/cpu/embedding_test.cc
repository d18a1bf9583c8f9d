#include "kernels/cpu/embedding.h"

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cell_args.h"
#include "kernels/cpu/test_util.h"

namespace recurve::cpu {
namespace {

std::vector<int32_t> RandomTokens(int64_t count, int32_t vocabulary,
                                  uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = random() % vocabulary;
  return tokens;
}

// dtable, one row after the other.
std::vector<float> ExpectedGradient(const std::vector<int32_t>& tokens,
                                    const std::vector<float>& dy,
                                    std::vector<float> dtable, int64_t cols) {
  for (size_t n = 0; n < tokens.size(); ++n) {
    for (int64_t j = 0; j < cols; ++j) {
      dtable[tokens[n] * cols + j] += dy[n * cols + j];
    }
  }
  return dtable;
}

TEST(EmbeddingForward, CopiesTheTokensRows) {
  const std::vector<float> table = RandomFloats(11 * 37, 1);
  const std::vector<int32_t> tokens = {10, 0, 3, 3, 0, 10};
  // Strides: a table inside a wider one, rows of y apart.
  std::vector<float> y(6 * 40, -7.0f);
  EmbeddingForwardArgs<float> args;
  args.tokens = tokens.data();
  args.table = {table.data(), 11, 35, 37};
  args.y = {y.data(), 6, 35, 40};
  ASSERT_TRUE(EmbeddingForward(args).ok());
  for (int64_t n = 0; n < 6; ++n) {
    for (int64_t j = 0; j < 40; ++j) {
      EXPECT_EQ(y[n * 40 + j], j < 35 ? table[tokens[n] * 37 + j] : -7.0f);
    }
  }
}

TEST(EmbeddingForward, IsTheSameForAnyThreads) {
  ExpectSameForAnyThreads([] {
    const std::vector<float> table = RandomFloats(50 * 64, 1);
    const std::vector<int32_t> tokens = RandomTokens(2000, 50, 2);
    std::vector<float> y(2000 * 64);
    EmbeddingForwardArgs<float> args;
    args.tokens = tokens.data();
    args.table = {table.data(), 50, 64};
    args.y = {y.data(), 2000, 64};
    EXPECT_TRUE(EmbeddingForward(args).ok());
    return y;
  });
}

TEST(EmbeddingForward, RefusesWhatDoesNotFit) {
  std::vector<float> values(12);
  EmbeddingForwardArgs<float> args;
  args.table = {values.data(), 3, 4};
  args.y = {values.data(), 3, 4};
  EXPECT_EQ(EmbeddingForward(args).code(), absl::StatusCode::kInvalidArgument);
  const std::vector<int32_t> tokens = {0, 1, 2};
  args.tokens = tokens.data();
  args.table.cols = 3;
  EXPECT_EQ(EmbeddingForward(args).code(), absl::StatusCode::kInvalidArgument);
}

TEST(EmbeddingBackward, SumsInRowOrder) {
  ForEachInstructionSet([] {
    for (int64_t cols : {1, 3, 16, 17, 100, 129}) {
      const std::vector<int32_t> tokens = RandomTokens(400, 7, cols);
      const std::vector<float> dy = RandomFloats(400 * cols, cols + 1);
      // Rows that no token names (7 and 8) become 0 too.
      std::vector<float> dtable(9 * cols, 99.0f);
      EmbeddingBackwardArgs<float> args;
      args.tokens = tokens.data();
      args.dy = {dy.data(), 400, cols};
      args.dtable = {dtable.data(), 9, cols};
      ASSERT_TRUE(EmbeddingBackward(args).ok());
      EXPECT_EQ(dtable, ExpectedGradient(tokens, dy,
                                         std::vector<float>(9 * cols), cols))
          << cols;
    }
  });
}

TEST(EmbeddingBackward, AccumulatesOnTopOfATiedGradient) {
  const std::vector<int32_t> tokens = RandomTokens(100, 5, 1);
  const std::vector<float> dy = RandomFloats(100 * 20, 2);
  const std::vector<float> before = RandomFloats(5 * 20, 3);
  std::vector<float> dtable = before;
  EmbeddingBackwardArgs<float> args;
  args.tokens = tokens.data();
  args.dy = {dy.data(), 100, 20};
  args.dtable = {dtable.data(), 5, 20};
  args.accumulate = true;
  ASSERT_TRUE(EmbeddingBackward(args).ok());
  EXPECT_EQ(dtable, ExpectedGradient(tokens, dy, before, 20));
}

TEST(EmbeddingBackward, IsTheSameForAnyThreads) {
  for (int64_t cols : {5, 40, 130}) {
    ExpectSameForAnyThreads([=] {
      const std::vector<int32_t> tokens = RandomTokens(5000, 30, 1);
      const std::vector<float> dy = RandomFloats(5000 * cols, 2);
      std::vector<float> dtable(31 * cols, -1.0f);
      EmbeddingBackwardArgs<float> args;
      args.tokens = tokens.data();
      args.dy = {dy.data(), 5000, cols};
      args.dtable = {dtable.data(), 31, cols};
      EXPECT_TRUE(EmbeddingBackward(args).ok());
      return dtable;
    });
  }
}

TEST(EmbeddingBackward, StaysInsideStridedRows) {
  const std::vector<int32_t> tokens = {1, 0, 1};
  const std::vector<float> dy(3 * 6, 1.0f);
  std::vector<float> dtable(2 * 8, 5.0f);
  EmbeddingBackwardArgs<float> args;
  args.tokens = tokens.data();
  args.dy = {dy.data(), 3, 4, 6};
  args.dtable = {dtable.data(), 2, 4, 8};
  ASSERT_TRUE(EmbeddingBackward(args).ok());
  EXPECT_EQ(dtable, std::vector<float>(
                        {1, 1, 1, 1, 5, 5, 5, 5, 2, 2, 2, 2, 5, 5, 5, 5}));
}

TEST(EmbeddingBackward, AnEmptyBatchStillClearsTheGradient) {
  std::vector<float> dtable(6, 5.0f);
  EmbeddingBackwardArgs<float> args;
  args.dy = {nullptr, 0, 3};
  args.dtable = {dtable.data(), 2, 3};
  ASSERT_TRUE(EmbeddingBackward(args).ok());
  EXPECT_EQ(dtable, std::vector<float>(6, 0.0f));
}

TEST(EmbeddingBackward, RefusesWhatDoesNotFit) {
  std::vector<float> values(12);
  const std::vector<int32_t> tokens = {0, 1, 2};
  EmbeddingBackwardArgs<float> args;
  args.tokens = tokens.data();
  args.dy = {values.data(), 3, 4};
  args.dtable = {values.data(), 4, 3};
  EXPECT_EQ(EmbeddingBackward(args).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recurve::cpu
