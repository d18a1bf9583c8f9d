// The promises of packed_product.h on every instruction set of this machine.
#include "kernels/cpu/packed_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
      : values(RandomFloats(depth * cols, seed)),
        matrix(values.data(), depth, cols) {}

  std::vector<float> values;
  Matrix<const float> matrix;
};

// The ranges' columns, side by side: what packed columns stand for.
Weights Chosen(const Weights& from, const std::vector<ColumnRange>& ranges) {
  int64_t cols = 0;
  for (const ColumnRange& range : ranges) cols += range.count;
  Weights chosen(from.matrix.rows, cols, 0);
  for (int64_t k = 0; k < from.matrix.rows; ++k) {
    float* to = chosen.values.data() + k * cols;
    for (const ColumnRange& range : ranges) {
      to = std::copy_n(from.matrix.row(k) + range.begin, range.count, to);
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
    const int64_t bytes = PackedBytes(precision, weights.matrix.rows, cols);
    EXPECT_EQ(bytes % kAlignment, 0);
    data_ = hwy::AllocateAligned<std::byte>(bytes + kAlignment);
    // Packing owes nothing to what was there, and leaves what lies behind.
    std::memset(data_.get(), 0xff, bytes + kAlignment);
    columns_ = Pack(precision, weights.matrix, ranges, data_.get());
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
                            const float* bias) {
  const int64_t stride = w.cols + 5;
  std::vector<float> wide(x.rows * stride + 5, kUnwritten);
  MultiplyPacked(x, w, bias, {wide.data() + 2, x.rows, w.cols, stride});
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
  std::vector<float> u(x.rows * w.matrix.cols);
  const Matrix<float> to(u.data(), x.rows, w.matrix.cols);
  EXPECT_TRUE((bias == nullptr ? MatMul(x, w.matrix, to)
                               : MatMulWithBias(x, w.matrix, bias, to))
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
        const std::vector<float> bias = RandomFloats(chosen.matrix.cols, 3);
        const Packed packed(Precision::kFloat32, weights, ranges);
        for (int64_t count : row_counts) {
          const Matrix<const float> x(rows.data(), count, depth, depth + 3);
          for (const float* b :
               {bias.data(), static_cast<const float*>(nullptr)}) {
            ASSERT_TRUE(SameBits(Multiply(x, packed.columns(), b),
                                 MatMulOf(x, chosen, b)))
                << count << " x " << depth << " x " << chosen.matrix.cols;
          }
        }
      }
    }
  });
}

TEST(PackedProductTest, NoRowsOrColumnsAreFine) {
  const Weights weights(5, 3, 1);
  const Packed packed(Precision::kFloat32, weights, {{0, 3}});
  EXPECT_TRUE(Multiply({nullptr, 0, 5}, packed.columns(), nullptr).empty());
  const Packed none(Precision::kFloat32, weights, {});
  EXPECT_EQ(PackedBytes(Precision::kFloat32, 5, 0), 0);
  const std::vector<float> x(10);
  EXPECT_TRUE(Multiply({x.data(), 2, 5}, none.columns(), nullptr).empty());
}

TEST(PackedProductTest, BytesAreThoseOfWholePanels) {
  EXPECT_EQ(PackedBytes(Precision::kFloat32, 7, 1), 4 * 7 * 48);
  EXPECT_EQ(PackedBytes(Precision::kFloat32, 7, 48), 4 * 7 * 48);
  EXPECT_EQ(PackedBytes(Precision::kFloat32, 7, 49), 4 * 7 * 96);
}

}  // namespace
}  // namespace recurve::cpu
