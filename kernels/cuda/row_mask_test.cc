#include "kernels/cuda/row_mask.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

template <typename S>
class CudaRowMask : public ::testing::Test {};
TYPED_TEST_SUITE(CudaRowMask, StorageTypes);

// All of as many columns.
struct Widths {
  Width x, mask, y;
};

template <typename S>
void Check(const std::vector<int64_t>& lengths, const Widths& widths,
           Destination destination) {
  const DeviceLayout layout(lengths);
  const int64_t cols = widths.x.cols;
  const int64_t count = layout.rows() * cols;
  const std::vector<S> x = RandomStored<S>(count, 1);
  const std::vector<S> before = RandomStored<S>(count, 2);
  const auto mask = RandomStored<float>(layout.sequences() * cols, 3);
  const DeviceMatrix<S> device_x(layout.rows(), widths.x, x);
  const DeviceMatrix<float> device_mask(layout.sequences(), widths.mask, mask);
  const bool accumulate = destination == Destination::kAccumulate;
  const DeviceMatrix<S> y =
      accumulate ? DeviceMatrix<S>(layout.rows(), widths.y, before)
                 : DeviceMatrix<S>(layout.rows(), widths.y);
  ASSERT_EQ(MultiplyBySequenceMask(layout.view(), device_x.constant(),
                                   device_mask.constant(), y.view(),
                                   destination, nullptr),
            cudaSuccess);
  Doubles expected;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t b = layout.SequenceOf(i / cols);
    expected.push_back(emulation::ToDouble(x[i]) * mask[b * cols + i % cols]);
    if (accumulate) expected.back() += emulation::ToDouble(before[i]);
  }
  y.ExpectNear(expected, StoredWithin<S>(1e-6));
}

TYPED_TEST(CudaRowMask, EachRowGetsItsSequencesFactors) {
  for (const auto& lengths : kLengths) {
    for (const Width& width : kWidths) {
      Check<TypeParam>(lengths, {width, width, width}, Destination::kOverwrite);
      Check<TypeParam>(lengths, {width, width, width},
                       Destination::kAccumulate);
    }
  }
}

TYPED_TEST(CudaRowMask, AnyOfTheMatricesMayBeUnaligned) {
  for (const Widths& widths : {Widths{kUnaligned, kAligned, kAligned},
                               {kAligned, kUnaligned, kAligned},
                               {kAligned, kAligned, kUnaligned}}) {
    Check<TypeParam>({3, 2}, widths, Destination::kOverwrite);
    Check<TypeParam>({3, 2}, widths, Destination::kAccumulate);
  }
}

TYPED_TEST(CudaRowMask, WorksInPlace) {
  using S = TypeParam;
  const DeviceLayout layout({2});
  const std::vector<S> x = RandomStored<S>(2 * 37, 1);
  const DeviceMatrix<S> y(2, {37, 40}, x);
  const DeviceMatrix<float> mask(1, {37, 40}, std::vector<float>(37, 2.0f));
  ASSERT_EQ(MultiplyBySequenceMask(layout.view(), y.constant(), mask.constant(),
                                   y.view(), Destination::kOverwrite, nullptr),
            cudaSuccess);
  Doubles expected = ToDoubles(x);
  for (double& value : expected) value *= 2;
  y.ExpectNear(expected, {});
}

// More rows than the grid has warps.
TEST(CudaRowMaskGrid, WalksRowsInStrides) {
  const int64_t rows = 2048 * 8 + 3;
  const DeviceLayout layout({rows});
  const std::vector<float> x = RandomStored<float>(rows, 1);
  const DeviceMatrix<float> device_x(rows, {1, 1}, x), y(rows, {1, 1});
  const DeviceMatrix<float> mask(1, {1, 1}, {1.0f});
  ASSERT_EQ(MultiplyBySequenceMask(layout.view(), device_x.constant(),
                                   mask.constant(), y.view(),
                                   Destination::kOverwrite, nullptr),
            cudaSuccess);
  y.ExpectSame(x);
}

}  // namespace
}  // namespace recurve::cuda
