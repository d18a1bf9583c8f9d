#include "kernels/cpu/elementwise.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/args_check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move this one above it.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The sums of a block of squares that are kept apart, on every instruction set.
inline constexpr int64_t kSquareLanes = 16;

void MultiplyRange(float* x, const float* mask, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) x[i] *= mask[i];
}

void AddRange(float* to, const float* from, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// The square of a float is exact in a double, so that a fused multiply-add
// rounds like any other.
double SumOfSquaresBlock(const float* data, int64_t count) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, decltype(d)> df;
  constexpr int64_t kLanes = hn::MaxLanes(d);
  constexpr int64_t kVectors = kSquareLanes / kLanes;
  hn::Vec<decltype(d)> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSquareLanes <= count; i += kSquareLanes) {
    for (int64_t k = 0; k < kVectors; ++k) {
      const auto x = hn::PromoteTo(d, hn::LoadU(df, data + i + k * kLanes));
      sums[k] = hn::MulAdd(x, x, sums[k]);
    }
  }
  HWY_ALIGN double lanes[kSquareLanes];
  for (int64_t k = 0; k < kVectors; ++k) {
    hn::Store(sums[k], d, lanes + k * kLanes);
  }
  for (int64_t k = 0; i + k < count; ++k) {
    lanes[k] += static_cast<double>(data[i + k]) * data[i + k];
  }
  for (int64_t half = kSquareLanes / 2; half > 0; half /= 2) {
    for (int64_t k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  }
  return lanes[0];
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(MultiplyRange);
HWY_EXPORT(AddRange);
HWY_EXPORT(SumOfSquaresBlock);

namespace {

// Elements that one piece of parallel work covers.
constexpr int64_t kPiece = 16 * 1024;
// Elements in one block of a sum of squares.
constexpr int64_t kSquaresBlock = 4096;
// Blocks whose sums are held, on the stack, before they are added in order.
constexpr int64_t kSquaresBlocksAtOnce = 512;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::Status Multiply(Matrix<float> x, Matrix<const float> mask) {
  RETURN_IF_ERROR(CheckMultiply(x, mask));
  const auto multiply = HWY_DYNAMIC_DISPATCH(MultiplyRange);
  ParallelFor(x.rows, x.rows * x.cols,
              [&](int64_t r) { multiply(x.row(r), mask.row(r), x.cols); });
  return absl::OkStatus();
}

absl::Status Add(float* to, const float* from, int64_t count) {
  RETURN_IF_ERROR(CheckCount("Add", count));
  const auto add = HWY_DYNAMIC_DISPATCH(AddRange);
  ParallelFor(CeilDivide(count, kPiece), count, [&](int64_t piece) {
    const int64_t begin = piece * kPiece;
    add(to + begin, from + begin, std::min(kPiece, count - begin));
  });
  return absl::OkStatus();
}

absl::StatusOr<double> SumOfSquares(const float* data, int64_t count) {
  RETURN_IF_ERROR(CheckCount("SumOfSquares", count));
  const auto sum_block = HWY_DYNAMIC_DISPATCH(SumOfSquaresBlock);
  std::array<double, kSquaresBlocksAtOnce> sums;
  double total = 0.0;
  constexpr int64_t kAtOnce = kSquaresBlocksAtOnce * kSquaresBlock;
  for (int64_t begin = 0; begin < count; begin += kAtOnce) {
    const int64_t here = std::min(kAtOnce, count - begin);
    const int64_t blocks = CeilDivide(here, kSquaresBlock);
    ParallelFor(blocks, here, [&](int64_t b) {
      const int64_t offset = b * kSquaresBlock;
      sums[b] = sum_block(data + begin + offset,
                          std::min(kSquaresBlock, here - offset));
    });
    for (int64_t b = 0; b < blocks; ++b) total += sums[b];
  }
  return total;
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
