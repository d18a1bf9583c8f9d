// The promises of packed_product.h on every instruction set of this machine.
#include "kernels/cpu/packed_product.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/aligned_allocator.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/test_util.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

constexpr float kUnwritten = -77.0f;

// Weights of `cols` columns, some of which are packed.
struct Weights {
  Weights(int64_t depth, int64_t cols, uint32_t seed)
      : depth(depth), cols(cols), values(RandomFloats(depth * cols, seed)) {}
  Matrix<const float> matrix() const { return {values.data(), depth, cols}; }

  int64_t depth;
  int64_t cols;
  std::vector<float> values;
};

// The ranges' columns, side by side: what packed columns stand for.
Weights Chosen(const Weights& from, const std::vector<ColumnRange>& ranges) {
  int64_t cols = 0;
  for (const ColumnRange& range : ranges) cols += range.count;
  Weights chosen(from.depth, cols, 0);
  for (int64_t k = 0; k < from.depth; ++k) {
    float* to = chosen.values.data() + k * cols;
    for (const ColumnRange& range : ranges) {
      to = std::copy_n(from.matrix().row(k) + range.begin, range.count, to);
    }
  }
  return chosen;
}

// Packed columns and their memory.
class Packed {
 public:
  Packed(Precision precision, const Weights& weights,
         const std::vector<ColumnRange>& ranges) {
    int64_t cols = 0;
    for (const ColumnRange& range : ranges) cols += range.count;
    const int64_t bytes = PackedBytes(precision, weights.depth, cols);
    EXPECT_EQ(bytes % kAlignment, 0);
    data_ = hwy::AllocateAligned<std::byte>(bytes + kAlignment);
    // Packing owes nothing to what was there, and leaves what lies behind.
    std::memset(data_.get(), 0xff, bytes + kAlignment);
    columns_ = Pack(precision, weights.matrix(), ranges, data_.get());
    EXPECT_EQ(columns_.cols, cols);
    for (int64_t i = bytes; i < bytes + kAlignment; ++i) {
      EXPECT_EQ(data_[i], std::byte{0xff});
    }
  }

  const PackedColumns& columns() const { return columns_; }

 private:
  hwy::AlignedFreeUniquePtr<std::byte[]> data_;
  PackedColumns columns_;
};

// x w (+ bias) of packed columns, written between columns that must stay.
std::vector<float> Multiply(Matrix<const float> x, const PackedColumns& w,
                            const float* bias,
                            DotProducts how = DotProducts::kFastest) {
  const int64_t stride = w.cols + 5;
  std::vector<float> wide(x.rows * stride + 5, kUnwritten);
  MultiplyPacked(x, w, bias, {wide.data() + 2, x.rows, w.cols, stride}, how);
  std::vector<float> u;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* row = wide.data() + 2 + r * stride;
    u.insert(u.end(), row, row + w.cols);
    EXPECT_EQ(row[-1], kUnwritten);
    EXPECT_EQ(row[w.cols], kUnwritten);
  }
  return u;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> MatMulOf(Matrix<const float> x, const Weights& w,
                            const float* bias) {
  std::vector<float> u(x.rows * w.cols);
  const Matrix<float> to(u.data(), x.rows, w.cols);
  EXPECT_TRUE((bias == nullptr ? MatMul(x, w.matrix(), to)
                               : MatMulWithBias(x, w.matrix(), bias, to))
                  .ok());
  return u;
}

// Gates' columns of a channel group, cut at and across panels' ends.
std::vector<std::vector<ColumnRange>> RangesOf(int64_t cols) {
  return {{{0, cols}},
          {{cols / 3, cols - cols / 3}},
          {{cols / 2, cols / 4}, {0, cols / 5}, {cols / 8, 1}},
          {{0, 0}, {0, (cols + 1) / 2}, {1, cols - 1}}};
}

TEST(PackedProductTest, Float32HasTheBitsOfMatMul) {
  const int64_t row_counts[] = {1, 2, 3, 7, 8, 9, 31, 64, 65, 130};
  const std::pair<int64_t, int64_t> sizes[] = {
      {1, 1},   {3, 47},   {16, 48},    {64, 49},   {101, 144},
      {512, 7}, {1023, 5}, {1024, 100}, {1025, 96}, {2149, 61}};
  ForEachInstructionSet([&] {
    for (const auto& [depth, cols] : sizes) {
      const Weights weights(depth, cols, 1);
      const std::vector<float> rows = RandomFloats(130 * (depth + 3), 2);
      for (const std::vector<ColumnRange>& ranges : RangesOf(cols)) {
        const Weights chosen = Chosen(weights, ranges);
        const std::vector<float> bias = RandomFloats(chosen.cols, 3);
        const Packed packed(Precision::kFloat32, weights, ranges);
        for (int64_t count : row_counts) {
          const Matrix<const float> x(rows.data(), count, depth, depth + 3);
          for (const float* b :
               {bias.data(), static_cast<const float*>(nullptr)}) {
            ASSERT_TRUE(SameBits(Multiply(x, packed.columns(), b),
                                 MatMulOf(x, chosen, b)))
                << count << " x " << depth << " x " << chosen.cols;
          }
        }
      }
    }
  });
}

// Calls f on every instruction set, with and without instructions for dot
// products.
void ForEachWay(const std::function<void(DotProducts)>& f) {
  ForEachInstructionSet([&] {
    for (DotProducts how : {DotProducts::kFastest, DotProducts::kNative,
                            DotProducts::kPortable}) {
      SCOPED_TRACE(static_cast<int>(how));
      f(how);
    }
  });
}

std::vector<float> AllToBfloat16(const std::vector<float>& values) {
  std::vector<float> rounded;
  for (float value : values) rounded.push_back(ToBfloat16(value));
  return rounded;
}

struct Shape {
  int64_t rows, depth, cols;
};
constexpr Shape kShapes[] = {{1, 1, 1},     {2, 3, 47},     {9, 16, 48},
                             {64, 65, 49},  {130, 34, 200}, {7, 1030, 101},
                             {67, 9001, 3}, {65, 2051, 10}};

// Expects x w + bias, each sum of n terms within a rounding's share of its
// terms' magnitudes.
void ExpectProduct(const std::vector<float>& u, const std::vector<float>& x,
                   const Weights& w, const std::vector<float>& bias) {
  const int64_t depth = w.depth, cols = w.cols;
  for (int64_t i = 0; i < static_cast<int64_t>(u.size()); ++i) {
    const float* row = x.data() + i / cols * depth;
    double sum = bias[i % cols], magnitude = std::abs(sum);
    for (int64_t k = 0; k < depth; ++k) {
      const double term = double{row[k]} * w.matrix().row(k)[i % cols];
      sum += term;
      magnitude += std::abs(term);
    }
    ASSERT_NEAR(u[i], sum, 1e-7 * magnitude * std::sqrt(depth + 1.0))
        << "at " << i / cols << ", " << i % cols << " of depth " << depth;
  }
}

TEST(PackedProductTest, Bfloat16IsTheProductOfRoundedFactors) {
  for (const Shape& shape : kShapes) {
    const Weights weights(shape.depth, shape.cols, 1);
    const std::vector<float> x = RandomFloats(shape.rows * shape.depth, 2);
    for (const std::vector<ColumnRange>& ranges : RangesOf(shape.cols)) {
      const Weights chosen = Chosen(weights, ranges);
      const std::vector<float> bias = RandomFloats(chosen.cols, 3);
      std::vector<float> expected;
      ForEachWay([&](DotProducts how) {
        const Packed packed(Precision::kBfloat16, weights, ranges);
        const std::vector<float> u =
            Multiply({x.data(), shape.rows, shape.depth}, packed.columns(),
                     bias.data(), how);
        if (expected.empty()) expected = u;
        ASSERT_TRUE(SameBits(u, expected));
      });
      Weights rounded = chosen;
      rounded.values = AllToBfloat16(chosen.values);
      ExpectProduct(expected, AllToBfloat16(x), rounded, bias);
    }
  }
}

// Products of about 1e-38: subnormal sums, and those that leave them behind.
TEST(PackedProductTest, Bfloat16SubnormalSumsAreZeroWhereverTheyAreMade) {
  constexpr int64_t kRows = 9, kDepth = 34, kCols = 50;
  Weights weights(kDepth, kCols, 1);
  std::vector<float> x = RandomFloats(kRows * kDepth, 2);
  for (float& value : weights.values) value *= 1.5e-19f;
  for (float& value : x) value *= 1.5e-19f;
  const auto multiply = [&](DotProducts how) {
    const Packed packed(Precision::kBfloat16, weights, {{0, kCols}});
    return Multiply({x.data(), kRows, kDepth}, packed.columns(), nullptr, how);
  };
  int64_t zeros = 0;
  for (float value : multiply(DotProducts::kFastest)) {
    EXPECT_NE(std::fpclassify(value), FP_SUBNORMAL);
    zeros += value == 0.0f;
  }
  EXPECT_GT(zeros, kRows * kCols / 10);
  EXPECT_LT(zeros, kRows * kCols * 9 / 10);
  EXPECT_TRUE(SameBits(multiply(DotProducts::kNative),
                       multiply(DotProducts::kPortable)));
  volatile float tiny = 1e-30f;
  EXPECT_NE(tiny * 1e-10f, 0.0f) << "flushing outlasted the product";
}

// Integers and the scale that they were divided by.
struct Quantized {
  std::vector<int64_t> values;
  float scale = 0.0f;
};

Quantized Quantize(const float* values, int64_t count, int64_t stride) {
  float max = 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    max = std::max(max, std::abs(values[i * stride]));
  }
  Quantized result;
  if (max > 0.0f) result.scale = max / 127.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = max > 0.0f ? values[i * stride] * (127.0f / max) : 0;
    result.values.push_back(std::lrint(scaled));
  }
  return result;
}

std::vector<float> Int8Product(Matrix<const float> x, const Weights& w,
                               const float* bias) {
  std::vector<Quantized> columns;
  for (int64_t j = 0; j < w.cols; ++j) {
    columns.push_back(Quantize(w.values.data() + j, w.depth, w.cols));
  }
  std::vector<float> u;
  for (int64_t r = 0; r < x.rows; ++r) {
    const Quantized row = Quantize(x.row(r), x.cols, 1);
    for (int64_t j = 0; j < w.cols; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < x.cols; ++k) {
        sum += row.values[k] * columns[j].values[k];
      }
      const float by_row = static_cast<float>(sum) * row.scale;
      const float value = by_row * columns[j].scale;
      u.push_back(bias == nullptr ? value : bias[j] + value);
    }
  }
  return u;
}

TEST(PackedProductTest, Int8IsExactInIntegersOnEveryInstructionSet) {
  for (const Shape& shape : kShapes) {
    const Weights weights(shape.depth, shape.cols, 1);
    std::vector<float> values = RandomFloats(shape.rows * shape.depth, 2, 3.0f);
    std::fill_n(values.data() + shape.rows / 2 * shape.depth, shape.depth, 0);
    const Matrix<const float> x(values.data(), shape.rows, shape.depth);
    for (const std::vector<ColumnRange>& ranges : RangesOf(shape.cols)) {
      const Weights chosen = Chosen(weights, ranges);
      const std::vector<float> bias = RandomFloats(chosen.cols, 3);
      for (const float* b : {bias.data(), static_cast<const float*>(nullptr)}) {
        const std::vector<float> expected = Int8Product(x, chosen, b);
        ForEachWay([&](DotProducts how) {
          const Packed packed(Precision::kInt8, weights, ranges);
          ASSERT_TRUE(SameBits(Multiply(x, packed.columns(), b, how), expected))
              << shape.rows << " x " << shape.depth << " x " << chosen.cols;
        });
      }
    }
  }
}

TEST(PackedProductTest, Int8SumsOfExtremesDoNotOverflowOrSaturate) {
  const int64_t depth = kMaxNarrowDepth;
  Weights weights(depth, 3, 1);
  std::vector<float> x(2 * depth);
  for (int64_t k = 0; k < depth; ++k) {
    weights.values[3 * k] = 1.0f;
    weights.values[3 * k + 1] = -1.0f;
    weights.values[3 * k + 2] = k % 2 == 0 ? 1.0f : -1.0f;
    x[k] = 2.0f;
    x[depth + k] = -2.0f;
  }
  ForEachWay([&](DotProducts how) {
    const Packed packed(Precision::kInt8, weights, {{0, 3}});
    const std::vector<float> u =
        Multiply({x.data(), 2, depth}, packed.columns(), nullptr, how);
    for (int i = 0; i < 6; ++i) {
      const double expected = (i < 3 ? 2.0 : -2.0) * depth *
                              (i % 3 == 0   ? 1
                               : i % 3 == 1 ? -1
                                            : 0);
      EXPECT_NEAR(u[i], expected, std::abs(expected) * 1e-6) << i;
    }
  });
}

TEST(PackedProductTest, RowsDoNotDependOnOtherRows) {
  constexpr int64_t kRows = 130, kDepth = 70, kCols = 101;
  const Weights weights(kDepth, kCols, 1);
  const std::vector<float> values = RandomFloats(kRows * kDepth, 2);
  const Matrix<const float> x(values.data(), kRows, kDepth);
  for (Precision precision :
       {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    const Packed packed(precision, weights, {{0, kCols}});
    ForEachWay([&](DotProducts how) {
      const std::vector<float> whole =
          Multiply(x, packed.columns(), nullptr, how);
      for (int64_t count : {1, 2, 3, 5, 6, 7, 8, 65}) {
        for (int64_t row = 0; row + count <= kRows; row += 13) {
          const float* from = whole.data() + row * kCols;
          ASSERT_TRUE(SameBits(
              Multiply(x.row_range(row, count), packed.columns(), nullptr, how),
              {from, from + count * kCols}))
              << count << " rows from " << row;
        }
      }
    });
  }
}

TEST(PackedProductTest, WhatIsNotFiniteStaysSo) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr int64_t kDepth = 37, kCols = 50;
  for (float bad : {kInf, -kInf, kNan}) {
    for (Precision precision : {Precision::kBfloat16, Precision::kInt8}) {
      Weights weights(kDepth, kCols, 1);
      std::vector<float> x = RandomFloats(3 * kDepth, 2);
      x[kDepth + 33] = bad;
      weights.values[5 * kCols + 7] = bad;
      ForEachWay([&](DotProducts how) {
        const Packed packed(precision, weights, {{0, kCols}});
        const std::vector<float> u =
            Multiply({x.data(), 3, kDepth}, packed.columns(), nullptr, how);
        for (int64_t i = 0; i < 3 * kCols; ++i) {
          const bool hit = i / kCols == 1 || i % kCols == 7;
          ASSERT_EQ(std::isfinite(u[i]), !hit) << i;
          if (hit && precision == Precision::kInt8) {
            ASSERT_TRUE(std::isnan(u[i])) << i;
          }
        }
      });
    }
  }
}

TEST(PackedProductTest, NumbersTooSmallToScaleCountAsZero) {
  Weights weights(4, 2, 1);
  for (int64_t k = 0; k < 4; ++k) weights.values[2 * k] = 1e-40f;
  const std::vector<float> x = {1, 1, 1, 1, 1e-41f, 0, -1e-42f, 0};
  ForEachWay([&](DotProducts how) {
    const Packed packed(Precision::kInt8, weights, {{0, 2}});
    const std::vector<float> u =
        Multiply({x.data(), 2, 4}, packed.columns(), nullptr, how);
    EXPECT_EQ(u[0], 0.0f);
    EXPECT_NE(u[1], 0.0f);
    EXPECT_EQ(u[2], 0.0f);
    EXPECT_EQ(u[3], 0.0f);
  });
}

TEST(PackedProductTest, NoRowsOrColumnsAreFine) {
  const Weights weights(5, 3, 1);
  const std::vector<float> x(10);
  for (Precision precision :
       {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    const Packed packed(precision, weights, {{0, 3}});
    EXPECT_TRUE(Multiply({nullptr, 0, 5}, packed.columns(), nullptr).empty());
    const Packed none(precision, weights, {});
    EXPECT_EQ(PackedBytes(precision, 5, 0), 0);
    EXPECT_TRUE(Multiply({x.data(), 2, 5}, none.columns(), nullptr).empty());
  }
}

TEST(PackedProductTest, BytesAreThoseOfWholePanels) {
  EXPECT_EQ(PackedBytes(Precision::kFloat32, 7, 1), 4 * 7 * 48);
  EXPECT_EQ(PackedBytes(Precision::kFloat32, 7, 48), 4 * 7 * 48);
  EXPECT_EQ(PackedBytes(Precision::kFloat32, 7, 49), 4 * 7 * 96);
  EXPECT_EQ(PackedBytes(Precision::kBfloat16, 7, 49), 2 * 8 * 96);
  EXPECT_EQ(PackedBytes(Precision::kInt8, 7, 49), (8 + 4 + 4) * 96);
}

}  // namespace
}  // namespace recurve::cpu
