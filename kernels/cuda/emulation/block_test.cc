#include "kernels/cuda/emulation/block.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/emulation/order.h"
#include "kernels/cuda/emulation/order_kernel.h"
#include "kernels/cuda/emulation/test_kernels.h"

namespace recurve::cuda::emulation {
namespace {

std::vector<float> Ascending(int n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

class Block : public testing::TestWithParam<ThreadOrder> {
 protected:
  void SetUp() override { SetThreadOrder(GetParam()); }
  void TearDown() override { SetThreadOrder(ThreadOrder::kMixed); }
};

INSTANTIATE_TEST_SUITE_P(Orders, Block,
                         testing::Values(ThreadOrder::kForward,
                                         ThreadOrder::kReverse,
                                         ThreadOrder::kRandom));

TEST_P(Block, BarrierLetsThreadsSeeEachOthersWrites) {
  for (int n : {1, 31, 32, 33, 65, 256}) {
    DeviceArray<float> x(Ascending(n)), y(n);
    ASSERT_EQ(Shift({n, y.data(), x.data()}, nullptr), cudaSuccess);
    std::vector<float> expected(n);
    for (int i = 1; i < n; ++i) expected[i] = i - 1;
    ExpectEqual(y, expected);
  }
}

TEST_P(Block, BarrierCountsPredicates) {
  DeviceArray<float> x(Ascending(70)), y(70);
  ASSERT_EQ(CountPositive({70, y.data(), x.data()}, nullptr), cudaSuccess);
  ExpectEqual(y, std::vector<float>(70, 69.0f));
}

TEST_P(Block, ShufflesStayInTheirWarp) {
  DeviceArray<float> x(Ascending(64)), y(64);
  ASSERT_EQ(WarpSum({64, y.data(), x.data()}, nullptr), cudaSuccess);
  std::vector<float> expected(64, 31 * 32 / 2);
  for (int i = 32; i < 64; ++i) expected[i] += 32 * 32;
  ExpectEqual(y, expected);
}

TEST_P(Block, ShufflesStayInTheirGroup) {
  DeviceArray<float> x(Ascending(32)), y(4 * 32);
  ASSERT_EQ(Shuffles({32, y.data(), x.data()}, nullptr), cudaSuccess);
  std::vector<float> expected;
  for (int i = 0; i < 32; ++i) expected.push_back(i % 8 == 0 ? i : i - 1);
  for (int i = 0; i < 32; ++i) expected.push_back(i % 8 == 7 ? i : i + 1);
  for (int i = 0; i < 32; ++i) expected.push_back(i ^ 1);
  for (int i = 0; i < 32; ++i) expected.push_back(i / 8 * 8);
  ExpectEqual(y, expected, 32);
}

TEST_P(Block, VotesHaveABitForEachLane) {
  std::vector<float> values(64, 0.0f);
  values[1] = values[4] = values[32] = 1.0f;
  DeviceArray<float> x(values), y(64);
  ASSERT_EQ(Vote({64, y.data(), x.data()}, nullptr), cudaSuccess);
  std::vector<float> expected(64, 18.0f);
  std::fill(expected.begin() + 32, expected.end(), 1.0f);
  ExpectEqual(y, expected);
}

TEST_P(Block, AtomicsAndWideShuffles) {
  DeviceArray<float> y(128);
  ASSERT_EQ(IntegerOperations({128, y.data()}, nullptr), cudaSuccess);
  ExpectEqual(y, std::vector<float>(128, 1.0f));
}

std::vector<int> FirstIntegers(int n) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

std::vector<int> OrderOfBlocks(ThreadOrder order) {
  SetThreadOrder(order);
  DeviceArray<int> counter(std::vector<int>{0}), y(20);
  EXPECT_EQ(BlockOrder({20, counter.data(), y.data()}, nullptr), cudaSuccess);
  std::vector<int> places = y.Download();
  SetThreadOrder(ThreadOrder::kMixed);
  return places;
}

TEST(Order, BlocksRunInIt) {
  std::vector<int> forward = OrderOfBlocks(ThreadOrder::kForward);
  EXPECT_EQ(forward, FirstIntegers(20));
  std::vector<int> reverse = OrderOfBlocks(ThreadOrder::kReverse);
  EXPECT_EQ(std::vector<int>(reverse.rbegin(), reverse.rend()),
            FirstIntegers(20));
}

TEST(Order, SeedRepeatsIt) {
  SeedOrder(7);
  std::vector<int> first = OrderOfBlocks(ThreadOrder::kRandom);
  std::vector<int> second = OrderOfBlocks(ThreadOrder::kRandom);
  SeedOrder(7);
  EXPECT_EQ(OrderOfBlocks(ThreadOrder::kRandom), first);
  EXPECT_NE(first, second);
  EXPECT_NE(first, FirstIntegers(20));
}

}  // namespace
}  // namespace recurve::cuda::emulation
