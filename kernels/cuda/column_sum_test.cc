#include "kernels/cuda/column_sum.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

template <typename S>
class CudaColumnSums : public ::testing::Test {};
TYPED_TEST_SUITE(CudaColumnSums, StorageTypes);

TYPED_TEST(CudaColumnSums, AddAllRows) {
  using S = TypeParam;
  for (const Width& width : {Width{1, 1}, Width{33, 35}, Width{64, 64}}) {
    for (const int64_t rows :
         {int64_t{0}, int64_t{1}, int64_t{70}, kRowBlock + 3}) {
      const std::vector<S> m = RandomStored<S>(rows * width.cols, 1);
      const DeviceMatrix<S> device_m(rows, width, m);
      const DeviceArray<float> sums(width.cols);
      ASSERT_EQ(ColumnSums(device_m.constant(), sums.data(),
                           Destination::kOverwrite, nullptr),
                cudaSuccess);
      Doubles expected(width.cols);
      for (size_t i = 0; i < m.size(); ++i) {
        expected[i % width.cols] += emulation::ToDouble(m[i]);
      }
      // 1027 terms of magnitude 1, in sums of at most 100.
      emulation::ExpectNear(sums, expected, {1e-4});

      ASSERT_EQ(ColumnSums(device_m.constant(), sums.data(),
                           Destination::kContinue, nullptr),
                cudaSuccess);
      for (double& sum : expected) sum *= 2;
      emulation::ExpectNear(sums, expected, {2e-4});
    }
  }
}

TEST(CudaColumnSumsEdge, NothingIsLaunchedWithoutColumns) {
  EXPECT_EQ(ColumnSums(Matrix<const float>(nullptr, 3, 0), nullptr,
                       Destination::kOverwrite, nullptr),
            cudaSuccess);
}

}  // namespace
}  // namespace recurve::cuda
