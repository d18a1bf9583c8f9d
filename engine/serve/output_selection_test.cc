#include "engine/serve/output_selection.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(OutputSelectionTest, SoftmaxSurvivesLargeLogits) {
  const std::vector<float> logits = {1000.0f, 1001.0f, -1e30f};
  std::vector<float> probabilities(3);
  Probabilities(logits, LogSumExp(logits), absl::MakeSpan(probabilities));
  EXPECT_FLOAT_EQ(probabilities[0], 1 / (1 + std::exp(1.0)));
  EXPECT_FLOAT_EQ(probabilities[1], 1 / (1 + std::exp(-1.0)));
  EXPECT_EQ(probabilities[2], 0.0f);
}

TEST(OutputSelectionTest, MinusInfinityIsProbabilityZero) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {-inf, 2.0f};
  EXPECT_EQ(LogSumExp(logits), 2.0);
  std::vector<float> probabilities(2);
  Probabilities(logits, 2.0, absl::MakeSpan(probabilities));
  EXPECT_EQ(probabilities, (std::vector<float>{0.0f, 1.0f}));
}

TEST(OutputSelectionTest, NotFiniteLogitsShow) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(LogSumExp(std::vector<float>{1.0f, NAN, inf})));
  EXPECT_FALSE(std::isfinite(LogSumExp(std::vector<float>{1.0f, inf})));
  EXPECT_FALSE(std::isfinite(LogSumExp(std::vector<float>{-inf, -inf})));
}

TEST(OutputSelectionTest, TiesGoToTheLowerClass) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, 0.0f, 3.0f};
  EXPECT_EQ(ArgMax(logits), 1);
  std::vector<int32_t> classes(4);
  std::vector<float> probabilities(4);
  TopK(logits, LogSumExp(logits), absl::MakeSpan(classes),
       absl::MakeSpan(probabilities));
  EXPECT_EQ(classes, (std::vector<int32_t>{1, 2, 4, 0}));
  EXPECT_EQ(probabilities[0], probabilities[2]);
  EXPECT_GT(probabilities[2], probabilities[3]);
}

}  // namespace
}  // namespace recurve
