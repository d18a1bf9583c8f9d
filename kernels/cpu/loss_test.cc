#include "kernels/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/cell_args.h"
#include "kernels/cpu/test_util.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kSmallest = std::numeric_limits<float>::min();
constexpr int64_t kWidths[] = {1,  2,  3,  7,   8,   15,  16,  17,
                               31, 33, 48, 255, 512, 513, 1500};

// Log of the sum of exponentials without `target`, in double.
double LogSumExpOfOthers(const float* row, int64_t cols, int64_t target) {
  double max = -INFINITY;
  for (int64_t j = 0; j < cols; ++j) {
    if (j != target) max = std::max<double>(max, row[j]);
  }
  double sum = 0.0;
  for (int64_t j = 0; j < cols; ++j) {
    if (j != target) sum += std::exp(row[j] - max);
  }
  return max + std::log(sum);
}

struct RowReference {
  double loss;
  std::vector<double> gradient;
};

// The loss is log(1 + exp(others - x_target)), which keeps its digits.
RowReference CrossEntropyReference(const float* row, int64_t cols,
                                   int64_t target, double weight) {
  RowReference reference = {0.0, std::vector<double>(cols, 0.0)};
  if (cols == 1) return reference;
  const double others = LogSumExpOfOthers(row, cols, target);
  const double gap = others - row[target];
  const double loss =
      gap > 0 ? gap + std::log1p(std::exp(-gap)) : std::log1p(std::exp(gap));
  const double log_sum = row[target] + loss;
  reference.loss = weight * loss;
  for (int64_t j = 0; j < cols; ++j) {
    reference.gradient[j] = weight * std::exp(row[j] - log_sum);
  }
  reference.gradient[target] = -weight * std::exp(others - log_sum);
  return reference;
}

struct CrossEntropyCase {
  CrossEntropyCase(int64_t rows, int64_t cols, float bound, uint32_t seed)
      : logits(RandomFloats(rows * cols, seed, bound)),
        weights(RandomFloats(rows, seed + 1)),
        row_losses(rows, -1.0f) {
    for (float& weight : weights) weight = std::abs(weight);
    for (int64_t r = 0; r < rows; ++r) {
      targets.push_back(static_cast<int32_t>((r * 7919) % cols));
    }
    args.logits = {logits.data(), rows, cols};
    args.targets = targets.data();
    args.weights = weights.data();
    args.want_gradient = true;
    args.row_losses = row_losses.data();
  }
  CrossEntropyCase(const CrossEntropyCase&) = delete;

  std::vector<float> logits;
  std::vector<int32_t> targets;
  std::vector<float> weights;
  std::vector<float> row_losses;
  CrossEntropyArgs<float> args;
};

// Within 1e-6 of itself (or below what a float holds), or of the row's weight
// for single gradients.
void ExpectMatchesReference(int64_t rows, int64_t cols, float bound) {
  CrossEntropyCase test(rows, cols, bound, cols);
  const std::vector<float> logits = test.logits;
  ASSERT_TRUE(CrossEntropy(test.args).ok());
  for (int64_t r = 0; r < rows; ++r) {
    const RowReference expected = CrossEntropyReference(
        logits.data() + r * cols, cols, test.targets[r], test.weights[r]);
    ASSERT_NEAR(test.row_losses[r], expected.loss,
                1e-6 * expected.loss + kSmallest)
        << "V " << cols << " bound " << bound << " row " << r;
    for (int64_t j = 0; j < cols; ++j) {
      ASSERT_NEAR(test.args.logits.row(r)[j], expected.gradient[j],
                  1e-6 * test.weights[r])
          << "V " << cols << " bound " << bound << " row " << r << " col " << j;
    }
  }
}

TEST(CrossEntropy, MatchesDoubleForOrdinaryLogits) {
  ForEachInstructionSet([] {
    for (int64_t cols : kWidths) ExpectMatchesReference(20, cols, 4.0f);
  });
}

TEST(CrossEntropy, MatchesDoubleForHugeLogits) {
  ForEachInstructionSet([] {
    for (int64_t cols : kWidths) ExpectMatchesReference(20, cols, 1e4f);
  });
}

TEST(CrossEntropy, MatchesDoubleForALargeVocabulary) {
  ExpectMatchesReference(3, 70001, 10.0f);
}

TEST(CrossEntropy, KeepsTheDigitsOfATinyLoss) {
  // -log(1 / (1 + 3 exp(-30))) = 2.8e-13; 1 - p rounds to 0 in float.
  std::vector<float> logits = {-10, 20, -10, -10};
  const int32_t target = 1;
  float loss = -1.0f;
  CrossEntropyArgs<float> args;
  args.logits = {logits.data(), 1, 4};
  args.targets = &target;
  args.want_gradient = true;
  args.row_losses = &loss;
  ASSERT_TRUE(CrossEntropy(args).ok());
  const double expected = 3 * std::exp(-30.0);
  EXPECT_NEAR(loss, expected, 1e-6 * expected);
  EXPECT_NEAR(logits[0], expected / 3, 1e-6 * expected);
  EXPECT_NEAR(logits[1], -expected, 1e-6 * expected);
}

TEST(CrossEntropy, WithoutGradientLeavesTheLogitsAlone) {
  CrossEntropyCase test(30, 53, 5.0f, 1);
  const std::vector<float> logits = test.logits;
  test.args.want_gradient = false;
  ASSERT_TRUE(CrossEntropy(test.args).ok());
  EXPECT_EQ(test.logits, logits);
  const std::vector<float> losses = test.row_losses;
  test.args.want_gradient = true;
  ASSERT_TRUE(CrossEntropy(test.args).ok());
  EXPECT_EQ(test.row_losses, losses);
  EXPECT_NE(test.logits, logits);
}

TEST(CrossEntropy, IgnoredRowsCountNothing) {
  CrossEntropyCase test(6, 19, 5.0f, 2);
  test.args.ignore_index = -100;
  test.targets[0] = test.targets[4] = -100;
  ASSERT_TRUE(CrossEntropy(test.args).ok());
  for (int64_t r = 0; r < 6; ++r) {
    const bool ignored = r == 0 || r == 4;
    EXPECT_EQ(test.row_losses[r] == 0.0f, ignored) << r;
    const float* row = test.args.logits.row(r);
    EXPECT_EQ(std::all_of(row, row + 19, [](float g) { return g == 0.0f; }),
              ignored)
        << r;
  }
}

TEST(CrossEntropy, IgnoreIndexMayBeAToken) {
  CrossEntropyCase test(2, 5, 5.0f, 3);
  test.args.ignore_index = 3;
  test.targets = {3, 2};
  ASSERT_TRUE(CrossEntropy(test.args).ok());
  EXPECT_EQ(test.row_losses[0], 0.0f);
  EXPECT_GT(test.row_losses[1], 0.0f);
}

TEST(CrossEntropy, NoWeightsMeansOne) {
  CrossEntropyCase test(9, 21, 5.0f, 4);
  CrossEntropyCase ones(9, 21, 5.0f, 4);
  test.args.weights = nullptr;
  ones.weights.assign(9, 1.0f);
  ASSERT_TRUE(CrossEntropy(test.args).ok());
  ASSERT_TRUE(CrossEntropy(ones.args).ok());
  EXPECT_EQ(test.row_losses, ones.row_losses);
  EXPECT_EQ(test.logits, ones.logits);
}

TEST(CrossEntropy, OneClassCostsNothing) {
  CrossEntropyCase test(3, 1, 1e4f, 5);
  ASSERT_TRUE(CrossEntropy(test.args).ok());
  EXPECT_EQ(test.row_losses, std::vector<float>(3, 0.0f));
  EXPECT_EQ(test.logits, std::vector<float>(3, 0.0f));
}

TEST(CrossEntropy, RowsDoNotDependOnTheirNeighbours) {
  CrossEntropyCase all(40, 77, 5.0f, 6);
  CrossEntropyCase one(40, 77, 5.0f, 6);
  ASSERT_TRUE(CrossEntropy(all.args).ok());
  one.args.logits = one.args.logits.row_range(23, 1);
  one.args.targets += 23;
  one.args.weights += 23;
  ASSERT_TRUE(CrossEntropy(one.args).ok());
  EXPECT_EQ(one.row_losses[0], all.row_losses[23]);
  EXPECT_TRUE(std::equal(all.args.logits.row(23), all.args.logits.row(24),
                         one.args.logits.row(0)));
}

TEST(CrossEntropy, IsTheSameForAnyThreads) {
  ExpectSameForAnyThreads([] {
    CrossEntropyCase test(500, 101, 5.0f, 7);
    EXPECT_TRUE(CrossEntropy(test.args).ok());
    test.logits.insert(test.logits.end(), test.row_losses.begin(),
                       test.row_losses.end());
    return test.logits;
  });
}

TEST(CrossEntropy, IsTheSameOnEveryInstructionSetWithFusedMultiplyAdd) {
  std::vector<std::vector<float>> results;
  ForEachInstructionSet([&] {
    if ((hwy::SupportedTargets() & (HWY_AVX2 | HWY_AVX3)) == 0) return;
    CrossEntropyCase test(5, 1234, 5.0f, 11);
    ASSERT_TRUE(CrossEntropy(test.args).ok());
    test.logits.insert(test.logits.end(), test.row_losses.begin(),
                       test.row_losses.end());
    results.push_back(test.logits);
  });
  for (const std::vector<float>& result : results) {
    EXPECT_EQ(result, results[0]);
  }
}

TEST(CrossEntropy, StaysInsideStridedRows) {
  std::vector<float> logits = RandomFloats(4 * 20, 8);
  const std::vector<float> before = logits;
  const std::vector<int32_t> targets = {0, 5, 10, 16};
  std::vector<float> losses(4);
  CrossEntropyArgs<float> args;
  args.logits = {logits.data(), 4, 17, 20};
  args.targets = targets.data();
  args.want_gradient = true;
  args.row_losses = losses.data();
  ASSERT_TRUE(CrossEntropy(args).ok());
  for (int64_t i = 0; i < 80; ++i) {
    EXPECT_EQ(logits[i] == before[i], i % 20 >= 17) << i;
  }
}

TEST(CrossEntropy,
     ImpossibleClassesCostNothingAndAnImpossibleTargetIsInfinite) {
  std::vector<float> logits = {-kInfinity, 1.0f, -kInfinity,
                               -kInfinity, 1.0f, 2.0f};
  const std::vector<int32_t> targets = {1, 0};
  std::vector<float> losses(2);
  CrossEntropyArgs<float> args;
  args.logits = {logits.data(), 2, 3};
  args.targets = targets.data();
  args.want_gradient = true;
  args.row_losses = losses.data();
  ASSERT_TRUE(CrossEntropy(args).ok());
  EXPECT_EQ(losses, std::vector<float>({0.0f, kInfinity}));
  EXPECT_EQ(logits[0], 0.0f);
  EXPECT_EQ(logits[1], 0.0f);
  EXPECT_EQ(logits[3], -1.0f);
}

TEST(CrossEntropy, NaNIsNotSwallowed) {
  ForEachInstructionSet([] {
    for (int64_t at = 0; at < 21; ++at) {
      for (bool want_gradient : {false, true}) {
        CrossEntropyCase test(1, 21, 5.0f, 9);
        test.args.want_gradient = want_gradient;
        test.logits[at] = NAN;
        ASSERT_TRUE(CrossEntropy(test.args).ok());
        EXPECT_TRUE(std::isnan(test.row_losses[0])) << at;
        if (want_gradient) {
          EXPECT_TRUE(std::isnan(test.logits[20 - at])) << at;
        }
      }
    }
  });
}

TEST(CrossEntropy, InfinityIsNotSwallowed) {
  for (int64_t at = 0; at < 21; ++at) {
    CrossEntropyCase test(1, 21, 5.0f, 9);
    test.logits[at] = kInfinity;
    ASSERT_TRUE(CrossEntropy(test.args).ok());
    EXPECT_TRUE(std::isnan(test.row_losses[0])) << at;
  }
}

TEST(CrossEntropy, RefusesMissingBuffers) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  CrossEntropyCase test(2, 3, 1.0f, 10);
  test.args.targets = nullptr;
  EXPECT_EQ(CrossEntropy(test.args).code(), kInvalid);
  test.args.targets = test.targets.data();
  test.args.row_losses = nullptr;
  EXPECT_EQ(CrossEntropy(test.args).code(), kInvalid);
  test.args.row_losses = test.row_losses.data();
  test.args.logits.cols = 0;
  EXPECT_EQ(CrossEntropy(test.args).code(), kInvalid);
  EXPECT_TRUE(CrossEntropy(CrossEntropyArgs<float>()).ok());
}

TEST(SquaredError, MatchesDouble) {
  ForEachInstructionSet([] {
    for (int64_t cols : kWidths) {
      constexpr int64_t kRows = 5;
      std::vector<float> predictions = RandomFloats(kRows * cols, cols, 3.0f);
      const std::vector<float> before = predictions;
      const std::vector<float> targets = RandomFloats(kRows * cols, 77, 3.0f);
      const std::vector<float> weights = {1.0f, 0.5f, 0.0f, 2.0f, 3.0f};
      std::vector<float> losses(kRows, -1.0f);
      SquaredErrorArgs<float> args;
      args.predictions = {predictions.data(), kRows, cols};
      args.targets = {targets.data(), kRows, cols};
      args.weights = weights.data();
      args.want_gradient = true;
      args.row_losses = losses.data();
      ASSERT_TRUE(SquaredError(args).ok());
      for (int64_t r = 0; r < kRows; ++r) {
        double sum = 0.0;
        for (int64_t i = r * cols; i < (r + 1) * cols; ++i) {
          const double error = static_cast<double>(before[i]) - targets[i];
          sum += error * error;
          ASSERT_NEAR(predictions[i], 2 * weights[r] / cols * error,
                      1e-6 * weights[r]);
        }
        ASSERT_NEAR(losses[r], weights[r] * sum / cols,
                    1e-6 * weights[r] * sum / cols);
      }
    }
  });
}

TEST(SquaredError, WithoutGradientLeavesThePredictionsAlone) {
  std::vector<float> predictions = {1.0f, 2.0f, 5.0f};
  const std::vector<float> targets = {1.0f, 0.0f, 4.0f};
  float loss = -1.0f;
  SquaredErrorArgs<float> args;
  args.predictions = {predictions.data(), 1, 3};
  args.targets = {targets.data(), 1, 3};
  args.row_losses = &loss;
  ASSERT_TRUE(SquaredError(args).ok());
  EXPECT_EQ(predictions, std::vector<float>({1.0f, 2.0f, 5.0f}));
  EXPECT_FLOAT_EQ(loss, 5.0f / 3.0f);
}

TEST(SquaredError, IsTheSameForAnyThreads) {
  ExpectSameForAnyThreads([] {
    std::vector<float> predictions = RandomFloats(3000 * 13, 1);
    const std::vector<float> targets = RandomFloats(3000 * 13, 2);
    std::vector<float> losses(3000);
    SquaredErrorArgs<float> args;
    args.predictions = {predictions.data(), 3000, 13};
    args.targets = {targets.data(), 3000, 13};
    args.want_gradient = true;
    args.row_losses = losses.data();
    EXPECT_TRUE(SquaredError(args).ok());
    predictions.insert(predictions.end(), losses.begin(), losses.end());
    return predictions;
  });
}

TEST(SquaredError, RefusesDifferentShapes) {
  std::vector<float> values(12), losses(4);
  SquaredErrorArgs<float> args;
  args.predictions = {values.data(), 4, 3};
  args.targets = {values.data(), 3, 4};
  args.row_losses = losses.data();
  EXPECT_EQ(SquaredError(args).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Softmax, MatchesDouble) {
  ForEachInstructionSet([] {
    for (float bound : {4.0f, 1e4f}) {
      for (int64_t cols : kWidths) {
        std::vector<float> logits = RandomFloats(3 * cols, cols, bound);
        const std::vector<float> before = logits;
        ASSERT_TRUE(Softmax({logits.data(), 3, cols}).ok());
        for (int64_t r = 0; r < 3; ++r) {
          // No column is taken out as a target.
          const double log_sum =
              LogSumExpOfOthers(before.data() + r * cols, cols, -1);
          for (int64_t i = r * cols; i < (r + 1) * cols; ++i) {
            const double expected = std::exp(before[i] - log_sum);
            ASSERT_NEAR(logits[i], expected, 1e-6 * expected + 1e-7);
          }
        }
      }
    }
  });
}

TEST(Softmax, NaNIsNotSwallowed) {
  std::vector<float> logits = {1.0f, NAN, 2.0f};
  ASSERT_TRUE(Softmax({logits.data(), 1, 3}).ok());
  for (float p : logits) EXPECT_TRUE(std::isnan(p));
}

TEST(Softmax, IsTheSameForAnyThreads) {
  ExpectSameForAnyThreads([] {
    std::vector<float> logits = RandomFloats(1000 * 29, 1, 5.0f);
    EXPECT_TRUE(Softmax({logits.data(), 1000, 29}).ok());
    return logits;
  });
}

}  // namespace
}  // namespace recurve::cpu
