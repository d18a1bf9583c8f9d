#include "kernels/cuda/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Rows for a warp and rows for a block.
const std::vector<Width> kLogits = {{1, 1},       {7, 7},       {33, 40},
                                    {1024, 1024}, {1025, 1025}, {1300, 1304}};

template <typename S>
class CudaLoss : public ::testing::Test {};
TYPED_TEST_SUITE(CudaLoss, StorageTypes);

// Loss and gradient of one row, weight applied.
double ReferenceLoss(const double* x, int64_t cols, int64_t target,
                     double weight, double* gradient) {
  const double max = *std::max_element(x, x + cols);
  double others = 0;
  for (int64_t j = 0; j < cols; ++j) {
    gradient[j] = std::exp(x[j] - max);
    if (j != target) others += gradient[j];
  }
  const double sum = others + gradient[target];
  for (int64_t j = 0; j < cols; ++j) gradient[j] *= weight / sum;
  gradient[target] = -weight * (others / sum);
  // log(sum) - (x_target - max), without cancelling where the target leads.
  return weight * (x[target] == max ? std::log1p(others)
                                    : std::log(sum) + max - x[target]);
}

// Targets and weights of a few rows; one is ignored.
struct Rows {
  std::vector<int32_t> targets;
  std::vector<float> weights;
};

Rows RowsFor(int64_t cols) {
  const auto last = static_cast<int32_t>(cols - 1);
  return {{0, last, -7, last / 2, 0}, {1.0f, 0.5f, 3.0f, 2.0f, 0.0f}};
}

template <typename S>
void CheckCrossEntropy(Width width, bool weighted, bool want_gradient) {
  const int64_t cols = width.cols;
  const Rows rows = RowsFor(cols);
  const auto count = static_cast<int64_t>(rows.targets.size());
  const std::vector<S> x = RandomStored<S>(count * cols, 1, 6.0f);
  const DeviceMatrix<S> logits(count, width, x);
  const DeviceArray<int32_t> targets(rows.targets);
  const DeviceArray<float> weights(rows.weights), losses(count);
  ASSERT_EQ(CrossEntropy<S>({.logits = logits.view(),
                             .targets = targets.data(),
                             .weights = weighted ? weights.data() : nullptr,
                             .ignore_index = -7,
                             .want_gradient = want_gradient,
                             .row_losses = losses.data()},
                            nullptr),
            cudaSuccess);
  const Doubles doubles = ToDoubles(x);
  Doubles expected, gradient(count * cols);
  for (int64_t r = 0; r < count; ++r) {
    expected.push_back(rows.targets[r] == -7
                           ? 0.0
                           : ReferenceLoss(&doubles[r * cols], cols,
                                           rows.targets[r],
                                           weighted ? rows.weights[r] : 1.0,
                                           &gradient[r * cols]));
  }
  emulation::ExpectNear(losses, expected, {.relative = 4e-6});
  if (want_gradient) {
    logits.ExpectNear(gradient, {std::is_same_v<S, Float16> ? 0x1p-25 : 1e-30,
                                 1.01 * kUnitRoundoff<S> + 4e-6});
  } else {
    logits.ExpectSame(x);
  }
}

TYPED_TEST(CudaLoss, CrossEntropyIsTheFormula) {
  for (const Width& width : kLogits) {
    CheckCrossEntropy<TypeParam>(width, true, true);
    CheckCrossEntropy<TypeParam>(width, false, true);
    CheckCrossEntropy<TypeParam>(width, true, false);
  }
}

// More rows than the grid has blocks: a block's sums of one row do not mix with
// those of the next.
TEST(CudaCrossEntropy, BlocksTakeManyRows) {
  const int64_t rows = 2048 + 3, cols = 1025;
  std::vector<float> x(rows * cols, 0.0f);
  Doubles expected;
  for (int64_t r = 0; r < rows; ++r) {
    x[r * cols + 1] = static_cast<float>(r % 7);
    expected.push_back(std::log(cols - 1 + std::exp(r % 7)));
  }
  const DeviceMatrix<float> logits(rows, {cols, cols}, x);
  const DeviceArray<int32_t> targets(std::vector<int32_t>(rows, 0));
  const DeviceArray<float> losses(rows);
  ASSERT_EQ(CrossEntropy<float>({.logits = logits.view(),
                                 .targets = targets.data(),
                                 .row_losses = losses.data()},
                                nullptr),
            cudaSuccess);
  emulation::ExpectNear(losses, expected, {.relative = 4e-6});
}

struct Result {
  std::vector<float> gradient, loss;
};

// Of one row of floats.
Result CrossEntropyOf(const std::vector<float>& x, int32_t target) {
  const auto cols = static_cast<int64_t>(x.size());
  const DeviceMatrix<float> logits(1, {cols, cols}, x);
  const DeviceArray<int32_t> targets(std::vector<int32_t>{target});
  const DeviceArray<float> loss(1);
  EXPECT_EQ(CrossEntropy<float>({.logits = logits.view(),
                                 .targets = targets.data(),
                                 .want_gradient = true,
                                 .row_losses = loss.data()},
                                nullptr),
            cudaSuccess);
  return {logits.Download(), loss.Download()};
}

TEST(CudaCrossEntropy, LossNearZeroKeepsItsDigits) {
  const Result result = CrossEntropyOf({0.0f, 40.0f, 1.0f}, 1);
  const double expected = std::exp(-40.0) + std::exp(-39.0);
  EXPECT_NEAR(result.loss[0], expected, 1e-6 * expected);
  EXPECT_NEAR(result.gradient[1], -expected, 1e-6 * expected);
}

TEST(CudaCrossEntropy, HugeAndInfiniteLogits) {
  const Result huge = CrossEntropyOf({1e30f, -1e30f, 0.0f}, 1);
  EXPECT_FLOAT_EQ(huge.loss[0], 2e30f);
  EXPECT_EQ(huge.gradient, (std::vector<float>{1.0f, -1.0f, 0.0f}));
  const Result alone = CrossEntropyOf({-kInfinity, 3.0f, -kInfinity}, 1);
  EXPECT_EQ(alone.loss[0], 0.0f);
  EXPECT_EQ(alone.gradient, (std::vector<float>{0.0f, 0.0f, 0.0f}));
  EXPECT_EQ(CrossEntropyOf({-kInfinity, 3.0f}, 0).loss[0], kInfinity);
  EXPECT_TRUE(std::isnan(CrossEntropyOf({-kInfinity, -kInfinity}, 0).loss[0]));
}

TEST(CudaCrossEntropy, NanMakesTheRowNan) {
  for (const int32_t target : {0, 1, 2000}) {
    std::vector<float> x(2001, 0.5f);
    x[1] = kNan;
    const Result result = CrossEntropyOf(x, target);
    EXPECT_TRUE(std::isnan(result.loss[0]));
    for (const float value : result.gradient) EXPECT_TRUE(std::isnan(value));
  }
}

TYPED_TEST(CudaLoss, SoftmaxIsTheFormula) {
  using S = TypeParam;
  for (const Width& width : kLogits) {
    for (const int64_t rows : {0, 1, 9}) {
      const std::vector<S> x = RandomStored<S>(rows * width.cols, 1, 6.0f);
      const DeviceMatrix<S> logits(rows, width, x);
      ASSERT_EQ(Softmax(logits.view(), nullptr), cudaSuccess);
      Doubles expected;
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t j = 0; j < width.cols; ++j) {
          expected.push_back(
              std::exp(emulation::ToDouble(x[r * width.cols + j])));
          sum += expected.back();
        }
        for (int64_t j = 0; j < width.cols; ++j) {
          expected[r * width.cols + j] /= sum;
        }
      }
      logits.ExpectNear(expected, {std::is_same_v<S, Float16> ? 0x1p-25 : 0.0,
                                   1.01 * kUnitRoundoff<S> + 4e-6});
    }
  }
}

TYPED_TEST(CudaLoss, SquaredErrorIsTheFormula) {
  using S = TypeParam;
  for (const Width& width : kWidths) {
    for (const bool want_gradient : {false, true}) {
      const int64_t rows = 9, cols = width.cols;
      const std::vector<S> p = RandomStored<S>(rows * cols, 1);
      const auto t = RandomStored<float>(rows * cols, 2);
      const auto w = RandomStored<float>(rows, 3);
      const DeviceMatrix<S> predictions(rows, width, p);
      const DeviceMatrix<float> targets(rows, width, t);
      const DeviceArray<float> weights(w), losses(rows);
      const bool weighted = cols != 64;
      ASSERT_EQ(SquaredError<S>({.predictions = predictions.view(),
                                 .targets = targets.constant(),
                                 .weights = weighted ? weights.data() : nullptr,
                                 .want_gradient = want_gradient,
                                 .row_losses = losses.data()},
                                nullptr),
                cudaSuccess);
      Doubles expected(rows), gradient;
      for (int64_t i = 0; i < rows * cols; ++i) {
        const double error = emulation::ToDouble(p[i]) - t[i];
        const double weight = weighted ? w[i / cols] : 1.0;
        expected[i / cols] += weight * error * error / cols;
        gradient.push_back(2 * weight * error / cols);
      }
      emulation::ExpectNear(losses, expected, {1e-6, 4e-6});
      if (want_gradient) {
        predictions.ExpectNear(gradient, StoredWithin<S>(4e-7));
      } else {
        predictions.ExpectSame(p);
      }
    }
  }
}

}  // namespace
}  // namespace recurve::cuda
