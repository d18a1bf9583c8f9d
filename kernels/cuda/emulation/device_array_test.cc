#include "kernels/cuda/emulation/device_array.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/emulation/test_kernels.h"

namespace recurve::cuda::emulation {
namespace {

TEST(DeviceArray, KernelsReadAndWriteIt) {
  DeviceArray<float> x(std::vector<float>(100, 2.0f));
  DeviceArray<float> y(std::vector<float>(100, 1.0f));
  ASSERT_EQ(Axpy({100, 3.0f, x.data(), y.data()}, nullptr), cudaSuccess);
  ExpectEqual(y, std::vector<float>(100, 7.0f));
}

TEST(DeviceArray, CountsWhatNobodyHasWritten) {
  EXPECT_EQ(DeviceArray<float>(37).CountUntouched(), 37);
  EXPECT_EQ(DeviceArray<int>(std::vector<int>{0, -1, 5}).CountUntouched(), 1);
  EXPECT_EQ(DeviceArray<float>(0).CountUntouched(), 0);
}

void CompareWithSeven(const DeviceArray<float>& array) {
  ExpectNear(array, std::vector<float>(array.size(), 7.0f), {.absolute = 0.5},
             2);
}

TEST(DeviceArray, ComparisonNamesTheWorstElement) {
  static const auto& array =
      *new DeviceArray<float>(std::vector<float>{7, 7.4f, 5, 8, 7, 6.6f});
  EXPECT_NONFATAL_FAILURE(CompareWithSeven(array),
                          "2 of 6 elements are off; worst: row 1, column 0 is "
                          "5, expected 7");
}

TEST(DeviceArray, ComparisonFailsOnUnwrittenElements) {
  static const auto& array = *new DeviceArray<float>(3);
  EXPECT_NONFATAL_FAILURE(CompareWithSeven(array), "3 were never written");
}

TEST(DeviceArray, ConvertsSixteenBitFloats) {
  EXPECT_EQ(ToDouble(BFloat16{0x3FC0}), 1.5);
  EXPECT_EQ(ToDouble(Float16{0x3C00}), 1.0);
  EXPECT_EQ(ToDouble(Float16{0xC500}), -5.0);
  EXPECT_EQ(ToDouble(Float16{0x7BFF}), 65504.0);
  EXPECT_EQ(ToDouble(Float16{0x0001}), 0x1p-24);
}

}  // namespace
}  // namespace recurve::cuda::emulation
