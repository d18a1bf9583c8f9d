// The main function of tests of kernels: runs them with a block's threads in
// ascending order, in descending order and in orders of chance, then asks
// whether every kernel in the binary was compared with something.
//
//   kernels_test [gtest flags] [FILE.cu ...]
//
// The files: as many kernels must have been compared as they have __global__
// functions. Neither is asked of a run with --gtest_filter or of a shard.
// RECURVE_CUDA_ORDER and RECURVE_CUDA_SEED (order.h) repeat one of the orders.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/emulation/coverage_check.h"
#include "kernels/cuda/emulation/order.h"

namespace recurve::cuda::emulation {
namespace {

constexpr int kRuns = 4;  // forward, reverse, two of chance

class OrderOfRun : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest&, int run) override {
    SetThreadOrder(run == 0   ? ThreadOrder::kForward
                   : run == 1 ? ThreadOrder::kReverse
                              : ThreadOrder::kRandom);
  }
};

void RunInAllOrders() {
  if (std::getenv("RECURVE_CUDA_ORDER") != nullptr) return;
  if (GTEST_FLAG_GET(repeat) != 1) return;
  GTEST_FLAG_SET(repeat, kRuns);
  testing::UnitTest::GetInstance()->listeners().Append(new OrderOfRun);
}

bool RunsEverything() {
  return GTEST_FLAG_GET(filter) == "*" &&
         std::getenv("GTEST_TOTAL_SHARDS") == nullptr &&
         std::getenv("TEST_TOTAL_SHARDS") == nullptr;
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  RunInAllOrders();
  int result = RUN_ALL_TESTS();
  if (!RunsEverything()) return result;
  for (const std::string& line :
       MissingCoverage(std::vector<std::string>(argv + 1, argv + argc))) {
    std::fprintf(stderr, "kernel coverage: %s\n", line.c_str());
    result = 1;
  }
  return result;
}

}  // namespace
}  // namespace recurve::cuda::emulation

int main(int argc, char** argv) {
  return recurve::cuda::emulation::Main(argc, argv);
}
