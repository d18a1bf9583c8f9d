// The promises of gemm.h for factors that are rounded to bf16.
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "hwy/aligned_allocator.h"
#include "kernels/backend.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/test_util.h"
#include "kernels/precision.h"
#include "kernels/product.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

constexpr float kUnwritten = -77.0f;

// A factor of a product, stored as it is or transposed, with room between rows.
struct Stored {
  Stored(int64_t rows, int64_t cols, bool transposed, uint32_t seed)
      : rows(transposed ? cols : rows),
        cols(transposed ? rows : cols),
        transposed(transposed),
        values(RandomFloats(this->rows * stride(), seed)) {
    for (float value : values) rounded.push_back(ToBfloat16(value));
  }

  int64_t stride() const { return cols + 3; }
  Matrix<const float> matrix() const {
    return {values.data(), rows, cols, stride()};
  }
  Factor<float> factor() const {
    return transposed ? Transposed(matrix()) : Factor<float>(matrix());
  }
  // Element (row, col) of the factor, as it is multiplied.
  double at(int64_t row, int64_t col) const {
    if (transposed) std::swap(row, col);
    return rounded[row * stride() + col];
  }

  int64_t rows, cols;
  bool transposed;
  std::vector<float> values;
  std::vector<double> rounded;
};

std::vector<float> Product(const Factor<float>& a, const Factor<float>& b,
                           int threads, float before = 0.0f,
                           Destination destination = Destination::kOverwrite) {
  omp_set_num_threads(threads);
  const int64_t stride = b.cols() + 5;
  std::vector<float> wide(a.rows() * stride + 5, kUnwritten);
  const Matrix<float> c(wide.data() + 2, a.rows(), b.cols(), stride);
  for (int64_t r = 0; r < c.rows; ++r) std::fill_n(c.row(r), c.cols, before);
  EXPECT_TRUE(MatMul(a, b, c, destination, Precision::kBfloat16).ok());
  std::vector<float> out;
  for (int64_t r = 0; r < c.rows; ++r) {
    out.insert(out.end(), c.row(r), c.row(r) + c.cols);
    EXPECT_EQ(c.row(r)[-1], kUnwritten);
    EXPECT_EQ(c.row(r)[c.cols], kUnwritten);
  }
  return out;
}

bool SameBits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

struct Shape {
  int64_t rows, depth, cols;
};

// Around the sides of tiles, panels, chunks, blocks of rows and of sums.
constexpr Shape kShapes[] = {{1, 1, 1},      {3, 7, 5},       {2, 48, 49},
                             {33, 1500, 17}, {8, 33, 48},     {31, 5, 101},
                             {64, 2049, 64}, {130, 70, 150},  {257, 34, 200},
                             {300, 65, 800}, {321, 1025, 49}, {5, 3, 1000}};

std::string Describe(const Shape& shape, int form) {
  return absl::StrCat(shape.rows, " x ", shape.depth, " x ", shape.cols,
                      " form ", form);
}

Stored A(const Shape& shape, int form) {
  return Stored(shape.rows, shape.depth, form & 1, 1);
}
Stored B(const Shape& shape, int form) {
  return Stored(shape.depth, shape.cols, form & 2, 2);
}

void ExpectProductOfRounded(const std::vector<float>& out, const Stored& a,
                            const Stored& b, const Shape& shape, double added) {
  for (int64_t i = 0; i < shape.rows * shape.cols; ++i) {
    const int64_t row = i / shape.cols, col = i % shape.cols;
    double sum = added, magnitude = std::abs(added);
    for (int64_t k = 0; k < shape.depth; ++k) {
      const double term =
          double{ToBfloat16(a.at(row, k))} * double{ToBfloat16(b.at(k, col))};
      sum += term;
      magnitude += std::abs(term);
    }
    // As for float32 factors (gemm_test.cc): the sums are the same.
    ASSERT_NEAR(out[i], sum, 1e-7 * magnitude * std::sqrt(shape.depth + 1.0))
        << Describe(shape, 2 * b.transposed + a.transposed) << " at " << row
        << ", " << col;
  }
}

TEST(Bfloat16GemmTest, IsTheProductOfRoundedFactorsInEveryForm) {
  for (const Shape& shape : kShapes) {
    for (int form = 0; form < 4; ++form) {
      const Stored a = A(shape, form), b = B(shape, form);
      ExpectProductOfRounded(Product(a.factor(), b.factor(), 2), a, b, shape,
                             0.0);
    }
  }
}

TEST(Bfloat16GemmTest, AddsToWhatIsThere) {
  const Shape shape{70, 1100, 60};
  for (int form = 0; form < 4; ++form) {
    const Stored a = A(shape, form), b = B(shape, form);
    ExpectProductOfRounded(
        Product(a.factor(), b.factor(), 2, 0.5f, Destination::kAccumulate), a,
        b, shape, 0.5);
  }
  const Stored a = A(shape, 0), b = B(shape, 0);
  const std::vector<float> bias(shape.cols, -2.5f);
  std::vector<float> out(shape.rows * shape.cols);
  ASSERT_TRUE(MatMulWithBias(a.factor(), b.factor(), bias.data(),
                             {out.data(), shape.rows, shape.cols},
                             Precision::kBfloat16)
                  .ok());
  ExpectProductOfRounded(out, a, b, shape, -2.5);
}

// All that have fused multiply-adds: among these of x86 all but SSE's.
TEST(Bfloat16GemmTest, InstructionSetsGiveTheSameBits) {
  for (const Shape& shape : {Shape{70, 1101, 60}, Shape{1, 130, 97}}) {
    for (int form = 0; form < 4; ++form) {
      const Stored a = A(shape, form), b = B(shape, form);
      ExpectSameOnAnyInstructionSet(
          [&] { return Product(a.factor(), b.factor(), 1); });
    }
  }
}

TEST(Bfloat16GemmTest, ThreadsDoNotChangeBits) {
  for (const Shape& shape : kShapes) {
    for (int form = 0; form < 4; ++form) {
      const Stored a = A(shape, form), b = B(shape, form);
      const std::vector<float> one = Product(a.factor(), b.factor(), 1);
      for (int threads : {2, 3}) {
        const std::vector<float> more =
            Product(a.factor(), b.factor(), threads);
        EXPECT_TRUE(SameBits(one.data(), more.data(), one.size()))
            << Describe(shape, form) << " on " << threads << " threads";
      }
    }
  }
}

TEST(Bfloat16GemmTest, RowsDoNotDependOnOtherRows) {
  for (const Shape& shape : kShapes) {
    for (int form : {0, 2}) {
      const Stored a = A(shape, form), b = B(shape, form);
      const std::vector<float> whole = Product(a.factor(), b.factor(), 2);
      for (int64_t count : {1, 2, 7, 65, 260}) {
        if (count >= shape.rows) break;
        const int64_t first = (shape.rows - count) * 5 / 7;
        const std::vector<float> part =
            Product(a.matrix().row_range(first, count), b.factor(), 1);
        EXPECT_TRUE(SameBits(part.data(), whole.data() + first * shape.cols,
                             part.size()))
            << count << " rows alone: " << Describe(shape, form);
      }
    }
  }
}

// Weight gradients: rows are summed in fixed blocks, so that those of the first
// rows, then those of the rest added, give the same.
TEST(Bfloat16GemmTest, SumsAreMadeOfBlocksOfRowsInOrder) {
  const Shape shape{50, kRowBlock + 300, 70};
  const Stored x = A(shape, 1), dy = B(shape, 0);
  const std::vector<float> whole = Product(x.factor(), dy.factor(), 2);
  std::vector<float> parts(whole.size());
  for (int64_t begin : {int64_t{0}, kRowBlock}) {
    const int64_t rows = std::min(kRowBlock, shape.depth - begin);
    ASSERT_TRUE(
        MatMul(Transposed(x.matrix().row_range(begin, rows)),
               dy.matrix().row_range(begin, rows),
               {parts.data(), shape.rows, shape.cols},
               begin == 0 ? Destination::kOverwrite : Destination::kAccumulate,
               Precision::kBfloat16)
            .ok());
  }
  EXPECT_TRUE(SameBits(whole.data(), parts.data(), whole.size()));
}

// And within a block they go on wherever they were left, but for inside a pair.
TEST(Bfloat16GemmTest, SumsOfABlockGoOnWhereverTheyWereLeft) {
  ForEachInstructionSet([&] {
    for (const Shape& shape :
         {Shape{1, 9, 1}, Shape{130, 1001, 60}, Shape{300, 77, 49}}) {
      const Stored x = A(shape, 1), dy = B(shape, 0);
      const std::vector<float> whole = Product(x.factor(), dy.factor(), 2);
      std::vector<float> parts(whole.size());
      int64_t begin = 0, count = 2;
      for (int call = 0; begin < shape.depth; ++call) {
        ASSERT_TRUE(
            MatMul(Transposed(x.matrix().row_range(begin, count)),
                   dy.matrix().row_range(begin, count),
                   {parts.data(), shape.rows, shape.cols},
                   call == 0 ? Destination::kOverwrite : Destination::kContinue,
                   Precision::kBfloat16)
                .ok());
        begin += count;
        count = std::min(2 * count + 4, shape.depth - begin);
      }
      EXPECT_TRUE(SameBits(whole.data(), parts.data(), whole.size()))
          << Describe(shape, 1);
    }
  });
}

TEST(Bfloat16GemmTest, PackedWeightsGiveTheSameBits) {
  for (const Shape& shape : kShapes) {
    if (shape.depth > kRowBlock) continue;
    const Stored x = A(shape, 0), w = B(shape, 0);
    const auto data = hwy::AllocateAligned<std::byte>(
        PackedBytes(Precision::kBfloat16, shape.depth, shape.cols));
    const PackedColumns packed =
        Pack(Precision::kBfloat16, w.matrix(), {{0, shape.cols}}, data.get());
    std::vector<float> u(shape.rows * shape.cols);
    MultiplyPacked(x.matrix(), packed, nullptr,
                   {u.data(), shape.rows, shape.cols});
    const std::vector<float> expected = Product(x.factor(), w.factor(), 2);
    EXPECT_TRUE(SameBits(u.data(), expected.data(), u.size()))
        << Describe(shape, 0);
  }
}

TEST(Bfloat16GemmTest, EmptySumsAreZero) {
  const Stored a(3, 0, false, 1), b(0, 4, false, 2);
  EXPECT_EQ(Product(a.factor(), b.factor(), 2, 9.0f),
            std::vector<float>(12, 0.0f));
}

}  // namespace
}  // namespace recurve::cpu
