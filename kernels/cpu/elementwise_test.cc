#include "kernels/cpu/elementwise.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/cpu/test_util.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

constexpr int64_t kCounts[] = {0, 1, 7, 15, 16, 17, 33, 1000, 16384, 40001};

TEST(Multiply, IsElementByElement) {
  ForEachInstructionSet([] {
    for (int64_t cols : {1, 5, 16, 37, 4000}) {
      std::vector<float> x = RandomFloats(9 * cols, 1);
      const std::vector<float> before = x;
      const std::vector<float> mask = RandomFloats(9 * cols, 2);
      ASSERT_TRUE(Multiply({x.data(), 9, cols}, {mask.data(), 9, cols}).ok());
      for (int64_t i = 0; i < 9 * cols; ++i) {
        ASSERT_EQ(x[i], before[i] * mask[i]) << i;
      }
    }
  });
}

TEST(Multiply, RespectsBothStrides) {
  std::vector<float> x(4 * 7, 2.0f);
  const std::vector<float> mask(4 * 9, 3.0f);
  ASSERT_TRUE(Multiply({x.data(), 4, 5, 7}, {mask.data(), 4, 5, 9}).ok());
  for (int64_t i = 0; i < 28; ++i) {
    EXPECT_EQ(x[i], i % 7 < 5 ? 6.0f : 2.0f) << i;
  }
}

TEST(Multiply, IsTheSameForAnyThreads) {
  ExpectSameForAnyThreads([] {
    std::vector<float> x = RandomFloats(500 * 111, 1);
    const std::vector<float> mask = RandomFloats(500 * 111, 2);
    EXPECT_TRUE(Multiply({x.data(), 500, 111}, {mask.data(), 500, 111}).ok());
    return x;
  });
}

TEST(Multiply, RefusesDifferentShapes) {
  std::vector<float> x(12), mask(12);
  EXPECT_EQ(Multiply({x.data(), 3, 4}, {mask.data(), 4, 3}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Add, IsElementByElement) {
  ForEachInstructionSet([] {
    for (int64_t count : kCounts) {
      std::vector<float> to = RandomFloats(count, 1);
      const std::vector<float> before = to;
      const std::vector<float> from = RandomFloats(count, 2);
      ASSERT_TRUE(Add(to.data(), from.data(), count).ok());
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(to[i], before[i] + from[i]) << i;
      }
    }
  });
}

TEST(Add, IsTheSameForAnyThreads) {
  ExpectSameForAnyThreads([] {
    std::vector<float> to = RandomFloats(100003, 1);
    const std::vector<float> from = RandomFloats(100003, 2);
    EXPECT_TRUE(Add(to.data(), from.data(), 100003).ok());
    return to;
  });
}

TEST(Add, RefusesANegativeCount) {
  EXPECT_EQ(Add(nullptr, nullptr, -1).code(),
            absl::StatusCode::kInvalidArgument);
}

// The documented order: 16 interleaved sums a block, halved; blocks in order.
double SumInDocumentedOrder(const std::vector<float>& data) {
  double total = 0.0;
  for (size_t begin = 0; begin < data.size(); begin += 4096) {
    double lanes[16] = {};
    for (size_t i = begin; i < data.size() && i < begin + 4096; ++i) {
      lanes[i % 16] += static_cast<double>(data[i]) * data[i];
    }
    for (int half = 8; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
    }
    total += lanes[0];
  }
  return total;
}

TEST(SumOfSquares, AddsInTheDocumentedOrderOnEveryInstructionSet) {
  ForEachInstructionSet([] {
    for (int64_t count : {0, 1, 15, 16, 17, 4095, 4096, 4097, 100003}) {
      const std::vector<float> data = RandomFloats(count, count, 100.0f);
      EXPECT_EQ(SumOfSquares(data.data(), count).value(),
                SumInDocumentedOrder(data))
          << count;
    }
  });
}

TEST(SumOfSquares, IsTheSameForAnyThreadsBeyondOneRoundOfBlocks) {
  constexpr int64_t kCount = 512 * 4096 + 4096 + 77;
  const std::vector<float> data = RandomFloats(kCount, 1);
  const double expected = SumInDocumentedOrder(data);
  ExpectSameForAnyThreads([&] {
    const double sum = SumOfSquares(data.data(), kCount).value();
    EXPECT_EQ(sum, expected);
    return std::vector<float>{static_cast<float>(sum)};
  });
}

TEST(SumOfSquares, DoesNotOverflowNorUnderflowInFloat) {
  const std::vector<float> large(1000, 3e38f), small(1000, 1e-40f);
  EXPECT_NEAR(SumOfSquares(large.data(), 1000).value() / 9e79, 1.0, 1e-6);
  EXPECT_NEAR(SumOfSquares(small.data(), 1000).value() / 1e-77, 1.0, 1e-4);
}

TEST(SumOfSquares, ShowsNaN) {
  std::vector<float> data(5000, 1.0f);
  data[4999] = NAN;
  EXPECT_TRUE(std::isnan(SumOfSquares(data.data(), 5000).value()));
}

TEST(SumOfSquares, RefusesANegativeCount) {
  EXPECT_EQ(SumOfSquares(nullptr, -1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recurve::cpu
