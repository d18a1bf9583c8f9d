#include "kernels/cuda/mask.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/mask.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

// Expects the CPU backend's bits. Pointers of args are set here.
void Check(MaskArgs args, const DeviceLayout& layout, Width width,
           const std::vector<int64_t>& positions) {
  const int64_t rows = args.variational ? layout.sequences() : layout.rows();
  const DeviceMatrix<float> mask(rows, width);
  const DeviceArray<int64_t> device_positions(positions);
  std::vector<float> expected(rows * width.cols);
  args.layout = layout.on_host();
  args.positions = positions.empty() ? nullptr : positions.data();
  args.mask = {expected.data(), rows, width.cols};
  ASSERT_TRUE(cpu::FillMask(args).ok());
  args.layout = layout.view();
  args.positions = device_positions.data();
  args.mask = mask.view();
  ASSERT_EQ(FillMask(args, nullptr), cudaSuccess);
  mask.ExpectSame(expected);
}

MaskArgs Args(float keep_probability, bool variational) {
  MaskArgs args;
  args.key = {.seed = 5,
              .purpose = RandomPurpose::kDropout,
              .step = 3,
              .accumulation = 2,
              .layer = 1};
  args.keep_probability = keep_probability;
  args.scale = 1.25f;
  args.variational = variational;
  args.first_sequence = 11;
  return args;
}

TEST(CudaMask, HasTheBitsOfTheCpuBackend) {
  for (const auto& lengths : kLengths) {
    for (const Width& width : kWidths) {
      for (const bool variational : {false, true}) {
        Check(Args(0.8f, variational), DeviceLayout(lengths), width, {});
      }
    }
  }
}

TEST(CudaMask, PositionsHave64Bits) {
  Check(Args(0.5f, false), DeviceLayout({3, 2}), {9, 9},
        {7, (int64_t{1} << 32) - 1});
}

TEST(CudaMask, KeepsNothingOrAll) {
  for (const float keep : {0.0f, 1.0f}) {
    Check(Args(keep, false), DeviceLayout({4}), {33, 33}, {});
  }
}

}  // namespace
}  // namespace recurve::cuda
