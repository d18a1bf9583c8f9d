#include "kernels/cuda/elementwise.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

template <typename S>
class CudaMultiply : public ::testing::Test {};
TYPED_TEST_SUITE(CudaMultiply, StorageTypes);

template <typename S>
void CheckMultiply(int64_t rows, Width x_width, Width mask_width) {
  const int64_t count = rows * x_width.cols;
  const std::vector<S> x = RandomStored<S>(count, 1);
  const auto mask = RandomStored<float>(count, 2);
  const DeviceMatrix<S> device_x(rows, x_width, x);
  const DeviceMatrix<float> device_mask(rows, mask_width, mask);
  ASSERT_EQ(Multiply(device_x.view(), device_mask.constant(), nullptr),
            cudaSuccess);
  Doubles expected = ToDoubles(x);
  for (size_t i = 0; i < mask.size(); ++i) expected[i] *= mask[i];
  device_x.ExpectNear(expected, StoredWithin<S>(4e-8));
}

TYPED_TEST(CudaMultiply, MultipliesEachElement) {
  for (const Width& width : kWidths) {
    for (const int64_t rows : {0, 1, 9}) {
      CheckMultiply<TypeParam>(rows, width, width);
    }
  }
}

TYPED_TEST(CudaMultiply, EitherMatrixMayBeUnaligned) {
  CheckMultiply<TypeParam>(5, kUnaligned, kAligned);
  CheckMultiply<TypeParam>(5, kAligned, kUnaligned);
}

// From these elements of the arrays on.
void CheckAdd(int64_t count, int64_t at, int64_t from_at) {
  std::vector<float> to = RandomStored<float>(count + at, 1);
  const std::vector<float> from = RandomStored<float>(count + from_at, 2);
  const DeviceArray<float> device_to(to), device_from(from);
  ASSERT_EQ(
      Add(device_to.data() + at, device_from.data() + from_at, count, nullptr),
      cudaSuccess);
  for (int64_t i = 0; i < count; ++i) to[at + i] += from[from_at + i];
  emulation::ExpectEqual(device_to, to);
}

TEST(CudaAdd, AddsEachElement) {
  // The last is more than the threads of the grid take in one stride.
  for (const int64_t count : {0, 1, 3, 1027, 2048 * 1024 + 5}) {
    for (const int64_t offset : {0, 1}) CheckAdd(count, offset, offset);
    if (count < 2000) {
      CheckAdd(count, 0, 1);
      CheckAdd(count, 1, 0);
    }
  }
}

double SquaresOf(const DeviceArray<float>& data, int64_t offset) {
  const DeviceArray<double> partials(kSquaresPartials), total(1);
  EXPECT_EQ(SumOfSquares(data.data() + offset, data.size() - offset,
                         partials.data(), total.data(), nullptr),
            cudaSuccess);
  emulation::MarkCompared();  // by the callers
  return total.Download()[0];
}

TEST(CudaSumOfSquares, AddsInDouble) {
  for (const int64_t count : {1, 3, 5000, 20000}) {
    for (const int64_t offset : {0, 1}) {
      std::vector<float> data = RandomStored<float>(count + offset, 1);
      data[offset] = 4096.0f;  // floats would lose the other squares
      double expected = 0;
      for (int64_t i = offset; i < count + offset; ++i) {
        expected += static_cast<double>(data[i]) * data[i];
      }
      EXPECT_NEAR(SquaresOf(DeviceArray<float>(data), offset), expected,
                  1e-12 * expected);
    }
  }
}

TEST(CudaSumOfSquares, SquaresMayExceedFloats) {
  const DeviceArray<float> data(std::vector<float>{1e30f, 1e30f});
  EXPECT_NEAR(SquaresOf(data, 0) / 2e60, 1.0, 1e-6);
}

TEST(CudaSumOfSquares, OfNothingIsZero) {
  EXPECT_EQ(SquaresOf(DeviceArray<float>(0), 0), 0.0);
}

}  // namespace
}  // namespace recurve::cuda
