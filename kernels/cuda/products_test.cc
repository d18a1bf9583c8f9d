// Products on the emulation, and what the choice of an algorithm goes by.
#include "kernels/cuda/products.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/emulation/device_array.h"

namespace recurve::cuda {
namespace {

using emulation::DeviceArray;

// Whole numbers, so that sums are exact in any order.
std::vector<float> Numbers(int64_t count, int seed) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 7 + seed) % 5) - 2;
  }
  return values;
}

struct Case {
  int64_t rows, depth, cols;
  bool a_transposed, b_transposed, accumulate, bias;
  int64_t bias_offset = 0;  // floats from an aligned address
};

std::unique_ptr<Products> Create(ProductPrecision precision) {
  auto products = CreateProducts(nullptr, precision, nullptr);
  EXPECT_TRUE(products.ok());
  return *std::move(products);
}

// The element (row, col) of a stored matrix or of its transpose.
float At(const std::vector<float>& m, int64_t stride, bool transposed,
         int64_t row, int64_t col) {
  return transposed ? m[col * stride + row] : m[row * stride + col];
}

void Check(const Case& c) {
  constexpr int64_t kGap = 3;  // between rows
  const auto stored = [](int64_t rows, int64_t cols, bool transposed) {
    return transposed ? std::pair(cols, rows) : std::pair(rows, cols);
  };
  const auto [a_rows, a_cols] = stored(c.rows, c.depth, c.a_transposed);
  const auto [b_rows, b_cols] = stored(c.depth, c.cols, c.b_transposed);
  const int64_t a_stride = a_cols + kGap, b_stride = b_cols + kGap;
  const int64_t c_stride = c.cols + kGap;
  const std::vector<float> a = Numbers(a_rows * a_stride, 1);
  const std::vector<float> b = Numbers(b_rows * b_stride, 2);
  const std::vector<float> bias = Numbers(c.cols, 3);
  std::vector<float> expected = Numbers(c.rows * c_stride, 4);
  DeviceArray<float> device_a(a), device_b(b), result(expected);
  std::vector<float> bias_buffer(c.bias_offset);
  bias_buffer.insert(bias_buffer.end(), bias.begin(), bias.end());
  DeviceArray<float> device_bias(bias_buffer);
  for (int64_t i = 0; i < c.rows; ++i) {
    for (int64_t j = 0; j < c.cols; ++j) {
      float& sum = expected[i * c_stride + j];
      if (!c.accumulate) sum = c.bias ? bias[j] : 0.0f;
      for (int64_t k = 0; k < c.depth; ++k) {
        sum += At(a, a_stride, c.a_transposed, i, k) *
               At(b, b_stride, c.b_transposed, k, j);
      }
    }
  }
  Factor<float> left(
      Matrix<const float>(device_a.data(), a_rows, a_cols, a_stride));
  Factor<float> right(
      Matrix<const float>(device_b.data(), b_rows, b_cols, b_stride));
  left.transposed = c.a_transposed;
  right.transposed = c.b_transposed;
  const Matrix<float> to(result.data(), c.rows, c.cols, c_stride);
  const auto products = Create(ProductPrecision::kFp32);
  const absl::Status status =
      c.bias ? products->MatMulWithBias(left, right,
                                        device_bias.data() + c.bias_offset, to)
             : products->MatMul(left, right, to,
                                c.accumulate ? Destination::kAccumulate
                                             : Destination::kOverwrite);
  ASSERT_TRUE(status.ok()) << status;
  ExpectEqual(result, expected, c_stride);
}

TEST(ProductsTest, AreSumsOfProductsInEveryForm) {
  for (const auto& [rows, depth, cols] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {1, 1, 1}, {2, 3, 5}, {70, 9, 130}, {65, 64, 64}}) {
    for (int form = 0; form < 16; ++form) {
      const bool accumulate = form & 4, bias = form & 8;
      if (accumulate && bias) continue;
      Check({rows, depth, cols, (form & 1) != 0, (form & 2) != 0, accumulate,
             bias});
    }
  }
}

TEST(ProductsTest, ABiasMayStandAnywhere) {
  for (int64_t offset : {1, 2, 3, 4}) {
    Check({7, 9, 13, false, false, false, true, offset});
  }
}

TEST(ProductsTest, EmptySumsAreZeroOrTheBias) {
  Check({3, 0, 4, false, false, false, false});
  Check({3, 0, 4, false, false, true, false});
  Check({3, 0, 4, false, false, false, true});
  Check({0, 5, 4, true, false, false, false});
  Check({3, 5, 0, false, true, false, false});
}

TEST(ProductsTest, SumsThatGoOnAreAddedTo) {
  DeviceArray<float> row(std::vector<float>{1, 2}), sum(std::vector<float>{10});
  const Matrix<const float> a(row.data(), 1, 2), b(row.data(), 2, 1);
  ASSERT_TRUE(Create(ProductPrecision::kFp32)
                  ->MatMul<float>(a, b, Matrix<float>(sum.data(), 1, 1),
                                  Destination::kContinue)
                  .ok());
  emulation::ExpectEqual(sum, std::vector<float>{15});
}

TEST(ProductsTest, FactorsMayBeStoredIn16Bits) {
  // 1, 2 and -3 in each format.
  const std::vector<BFloat16> bf16 = {{0x3f80}, {0x4000}, {0xc040}};
  const std::vector<Float16> fp16 = {{0x3c00}, {0x4000}, {0xc200}};
  const auto products = Create(ProductPrecision::kFp32);
  const auto check = [&](const auto& values) {
    using S = typename std::decay_t<decltype(values)>::value_type;
    DeviceArray<S> a(values), same(1);
    DeviceArray<float> sum(1);
    const Matrix<const S> row(a.data(), 1, 3), column(a.data(), 3, 1);
    ASSERT_TRUE(products
                    ->MatMul<S>(row, column, Matrix<float>(sum.data(), 1, 1),
                                Destination::kOverwrite)
                    .ok());
    ASSERT_TRUE(products
                    ->MatMul<S>(row, column, Matrix<S>(same.data(), 1, 1),
                                Destination::kOverwrite)
                    .ok());
    emulation::ExpectEqual(sum, std::vector<float>{14});
    emulation::ExpectEqual(same, std::vector<float>{14});
  };
  check(bf16);
  check(fp16);
}

TEST(ProductsTest, ShapesThatDoNotFitAreRefused) {
  const auto products = Create(ProductPrecision::kFp32);
  DeviceArray<float> m(16);
  const Matrix<float> a(m.data(), 2, 3), b(m.data(), 2, 2), c(m.data(), 2, 2);
  EXPECT_EQ(products->MatMul<float>(a, b, c, Destination::kOverwrite).code(),
            absl::StatusCode::kInvalidArgument);
}

Product SomeProduct(int64_t rows) {
  Product product;
  product.rows = rows;
  product.cols = 96;
  product.depth = 64;
  product.a.stride = 64;
  product.b.stride = product.c_stride = 96;
  return product;
}

TEST(ProductKeyTest, NearlyAsManyRowsAreMultipliedAlike) {
  EXPECT_EQ(KeyOf(SomeProduct(700)), KeyOf(SomeProduct(1024)));
  EXPECT_NE(KeyOf(SomeProduct(1024)), KeyOf(SomeProduct(1025)));
  EXPECT_EQ(KeyOf(SomeProduct(1)), KeyOf(SomeProduct(16)));
  EXPECT_NE(ExactKeyOf(SomeProduct(700)), ExactKeyOf(SomeProduct(701)));
}

TEST(ProductKeyTest, RowsAreRoundedAndNothingElse) {
  Product forward = SomeProduct(70);
  EXPECT_EQ(KeyOf(forward).rows, 128);
  EXPECT_EQ(KeyOf(forward).cols, 96);
  EXPECT_EQ(KeyOf(forward).depth, 64);
  Product weights = SomeProduct(70);  // x^T dy
  weights.a.transposed = true;
  weights.depth = 100;
  EXPECT_EQ(KeyOf(weights).rows, 70);
  EXPECT_EQ(KeyOf(weights).depth, 128);
}

TEST(ProductKeyTest, AlignmentIsTheAddresses) {
  Product product = SomeProduct(1);
  product.a.data = reinterpret_cast<void*>(0x1010);
  product.b.data = reinterpret_cast<void*>(0x1004);
  product.c = reinterpret_cast<void*>(0x10000);
  EXPECT_EQ(KeyOf(product).a_alignment, 16);
  EXPECT_EQ(KeyOf(product).b_alignment, 4);
  EXPECT_EQ(KeyOf(product).c_alignment, 256);
  EXPECT_EQ(KeyOf(product).bias_alignment, 256);
  product.bias = reinterpret_cast<const float*>(0x1008);
  EXPECT_EQ(KeyOf(product).bias_alignment, 8);
}

}  // namespace
}  // namespace recurve::cuda
