// Runs under kernel_test_main: this test, once for each order; then that the
// one kernel in the binary was compared.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/emulation/order_kernel.h"

namespace recurve::cuda::emulation {
namespace {

TEST(KernelTestMain, RunsTestsInEachOrder) {
  static int run = 0;
  DeviceArray<int> counter(std::vector<int>{0}), order(10);
  ASSERT_EQ(BlockOrder({10, counter.data(), order.data()}, nullptr),
            cudaSuccess);
  const std::vector<int> forward = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<int> reverse(forward.rbegin(), forward.rend());
  if (run == 0) ExpectEqual(order, forward);
  if (run == 1) ExpectEqual(order, reverse);
  if (run >= 2) {
    EXPECT_NE(order.Download(), forward);
    EXPECT_NE(order.Download(), reverse);
  }
  ++run;
}

}  // namespace
}  // namespace recurve::cuda::emulation
