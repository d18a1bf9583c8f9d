#include "kernels/cuda/window.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

// Widths of x. Rows of the window matrix follow each other without gaps.
const std::vector<Width> kInputs = {{1, 1}, {33, 33}, {37, 40}, {64, 64}};

template <typename S>
class CudaWindow : public ::testing::Test {};
TYPED_TEST_SUITE(CudaWindow, StorageTypes);

// The row beside row r in a direction, or -1 if the sequence ends there.
int64_t Beside(const DeviceLayout& layout, int64_t r, int64_t direction) {
  const int64_t other = direction == 0 ? r - 1 : r + 1;
  const int64_t b = layout.SequenceOf(r);
  return other < layout.cu_seqlens[b] || other >= layout.cu_seqlens[b + 1]
             ? -1
             : other;
}

template <typename S>
void CheckFill(const DeviceLayout& layout, Width width, int64_t directions,
               bool with_previous) {
  const int64_t cols = width.cols;
  const std::vector<S> x = RandomStored<S>(layout.rows() * cols, 1);
  const std::vector<S> previous = RandomStored<S>(layout.sequences() * cols, 2);
  std::vector<float> previous_floats;
  for (const S& value : previous) previous_floats.push_back(ToFloat(value));
  const DeviceMatrix<S> device_x(layout.rows(), width, x);
  const DeviceMatrix<float> device_previous(layout.sequences(), width,
                                            previous_floats);
  const int64_t window = directions * 2 * cols;
  const DeviceMatrix<S> window_rows(layout.rows(), {window, window});
  ASSERT_EQ(FillWindowRows(layout.view(), device_x.constant(),
                           with_previous ? device_previous.constant()
                                         : Matrix<const float>(),
                           window_rows.view(), nullptr),
            cudaSuccess);
  std::vector<S> expected;
  for (int64_t r = 0; r < layout.rows(); ++r) {
    for (int64_t d = 0; d < directions; ++d) {
      const int64_t other = Beside(layout, r, d);
      const int64_t b = layout.SequenceOf(r);
      expected.insert(expected.end(), &x[r * cols], &x[r * cols] + cols);
      for (int64_t j = 0; j < cols; ++j) {
        const bool before = other < 0 && d == 0 && with_previous;
        expected.push_back(other >= 0 ? x[other * cols + j]
                           : before   ? previous[b * cols + j]
                                      : FromFloat<S>(0.0f));
      }
    }
  }
  window_rows.ExpectSame(expected);
}

TYPED_TEST(CudaWindow, RowsStandBesideTheirNeighbours) {
  for (const auto& lengths : kLengths) {
    for (const Width& width : kInputs) {
      const DeviceLayout layout(lengths);
      CheckFill<TypeParam>(layout, width, 1, false);
      CheckFill<TypeParam>(layout, width, 1, true);
      CheckFill<TypeParam>(layout, width, 2, false);
    }
  }
}

// The transpose of FillWindowRows: each element of a window row adds to where
// it came from.
template <typename S>
void CheckGather(const DeviceLayout& layout, Width width, int64_t directions) {
  const int64_t cols = width.cols;
  const int64_t window = directions * 2 * cols;
  const std::vector<S> dwindow = RandomStored<S>(layout.rows() * window, 1);
  const DeviceMatrix<S> device(layout.rows(), {window, window}, dwindow);
  const DeviceMatrix<S> dx(layout.rows(), width);
  ASSERT_EQ(GatherWindowGradient(layout.view(), device.constant(), dx.view(),
                                 nullptr),
            cudaSuccess);
  Doubles expected(layout.rows() * cols);
  for (int64_t r = 0; r < layout.rows(); ++r) {
    for (int64_t i = 0; i < window; ++i) {
      const bool copy = i / cols % 2 == 1;
      const int64_t from = copy ? Beside(layout, r, i / (2 * cols)) : r;
      if (from < 0) continue;
      expected[from * cols + i % cols] +=
          emulation::ToDouble(dwindow[r * window + i]);
    }
  }
  dx.ExpectNear(expected, StoredWithin<S>(1e-6));
}

TYPED_TEST(CudaWindow, GradientsReturnToTheRowsThatWereCopied) {
  for (const auto& lengths : kLengths) {
    for (const Width& width : kInputs) {
      CheckGather<TypeParam>(DeviceLayout(lengths), width, 1);
      CheckGather<TypeParam>(DeviceLayout(lengths), width, 2);
    }
  }
}

template <typename S>
void CheckLast(const DeviceLayout& layout, Width width, bool with_previous) {
  const int64_t cols = width.cols;
  const std::vector<S> x = RandomStored<S>(layout.rows() * cols, 1);
  const auto previous = RandomStored<float>(layout.sequences() * cols, 2);
  const DeviceMatrix<S> device_x(layout.rows(), width, x);
  // It is written over what it reads.
  const DeviceMatrix<float> last =
      with_previous ? DeviceMatrix<float>(layout.sequences(), width, previous)
                    : DeviceMatrix<float>(layout.sequences(), width);
  ASSERT_EQ(
      StoreLastRows(layout.view(), device_x.constant(),
                    with_previous ? last.constant() : Matrix<const float>(),
                    last.view(), nullptr),
      cudaSuccess);
  std::vector<float> expected;
  for (int64_t b = 0; b < layout.sequences(); ++b) {
    const int64_t end = layout.cu_seqlens[b + 1];
    for (int64_t j = 0; j < cols; ++j) {
      const bool empty = layout.cu_seqlens[b] == end;
      expected.push_back(!empty          ? ToFloat(x[(end - 1) * cols + j])
                         : with_previous ? previous[b * cols + j]
                                         : 0.0f);
    }
  }
  last.ExpectSame(expected);
}

TYPED_TEST(CudaWindow, LastRowsAreKeptThroughEmptySequences) {
  for (const auto& lengths : kLengths) {
    for (const Width& width : kInputs) {
      CheckLast<TypeParam>(DeviceLayout(lengths), width, false);
      CheckLast<TypeParam>(DeviceLayout(lengths), width, true);
    }
  }
}

}  // namespace
}  // namespace recurve::cuda
