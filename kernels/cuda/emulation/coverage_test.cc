#include "kernels/cuda/emulation/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "kernels/cuda/emulation/coverage_check.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/emulation/test_kernels.h"

namespace recurve::cuda::emulation {
namespace {

constexpr char kAxpy[] = "recurve::cuda::emulation::AxpyKernel<64>";

bool IsUncovered(const std::string& name) {
  return testing::Value(UncoveredKernels(), testing::Contains(name));
}

TEST(Coverage, KernelIsCoveredOnceItsOutputIsCompared) {
  EXPECT_TRUE(
      KernelTemplates().contains("recurve::cuda::emulation::AxpyKernel"));
  ASSERT_TRUE(IsUncovered(kAxpy));
  DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{2});
  ExpectEqual(y, std::vector<float>{2});  // before the launch: counts nothing
  ASSERT_EQ(Axpy({1, 3.0f, x.data(), y.data()}, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(IsUncovered(kAxpy));
  ExpectEqual(y, std::vector<float>{5});
  EXPECT_FALSE(IsUncovered(kAxpy));
  EXPECT_EQ(CoveredKernelTemplates().size(), 1);
}

TEST(Coverage, KernelThatNobodyCallsIsMissed) {
  EXPECT_THAT(
      MissingCoverage({}),
      testing::Contains("no comparison follows a launch of "
                        "recurve::cuda::emulation::ShiftKernel<false>"));
}

TEST(Coverage, KernelsAreAsManyAsInTheSources) {
  const std::string path = testing::TempDir() + "/one.cu";
  std::ofstream(path) << "__global__ void Lonely() {}";
  std::vector<std::string> missing = MissingCoverage({path, path});
  EXPECT_THAT(missing.back(),
              testing::StartsWith("the sources have 2 __global__ functions"));
}

TEST(Coverage, CountsGlobalFunctions) {
  EXPECT_EQ(CountGlobalFunctions("template <int k>\n__global__ void A() {}\n"
                                 "// a __global__ function\n"
                                 "__global__ void B(); // __global__"),
            2);
  EXPECT_EQ(CountGlobalFunctions(""), 0);
}

}  // namespace
}  // namespace recurve::cuda::emulation
