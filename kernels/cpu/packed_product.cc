#include "kernels/cpu/packed_product.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

int64_t RoundUp(int64_t a, int64_t b) { return (a + b - 1) / b * b; }

// Columns of the weights that lie side by side in one panel.
struct Run {
  int64_t from = 0;  // column of the weights
  int64_t to = 0;    // packed column
  int64_t count = 0;
};

// Calls f(run) for all of the ranges' columns, in order.
template <typename F>
int64_t ForEachRun(absl::Span<const ColumnRange> ranges, const F& f) {
  int64_t to = 0;
  for (const ColumnRange& range : ranges) {
    const int64_t end = range.begin + range.count;
    for (int64_t from = range.begin; from < end;) {
      const int64_t count =
          std::min(end - from, kColumnUnit - to % kColumnUnit);
      f(Run{from, to, count});
      from += count;
      to += count;
    }
  }
  return to;
}

int64_t PackFloat32(Matrix<const float> weights,
                    absl::Span<const ColumnRange> ranges, float* to) {
  const int64_t panel_stride = weights.rows * kColumnUnit;
  const auto place = [&](int64_t column) {
    return to + column / kColumnUnit * panel_stride + column % kColumnUnit;
  };
  const int64_t cols = ForEachRun(ranges, [&](const Run& run) {
    for (int64_t k = 0; k < weights.rows; ++k) {
      std::copy_n(weights.row(k) + run.from, run.count,
                  place(run.to) + k * kColumnUnit);
    }
  });
  const int64_t padding = RoundUp(cols, kColumnUnit) - cols;
  for (int64_t k = 0; padding > 0 && k < weights.rows; ++k) {
    std::fill_n(place(cols) + k * kColumnUnit, padding, 0.0f);
  }
  return cols;
}

void MultiplyFloat32(Matrix<const float> x, const PackedColumns& w,
                     const float* bias, Matrix<float> u) {
  PanelBlock block;
  block.a_stride = x.stride;
  block.panel_stride = w.depth * kColumnUnit;
  block.c = u.data;
  block.c_stride = u.stride;
  block.addend = bias;
  block.rows = x.rows;
  block.cols = w.cols;
  for (int64_t k = 0; k < w.depth; k += kSumBlock) {
    block.a = x.data + k;
    block.b = reinterpret_cast<const float*>(w.data) + k * kColumnUnit;
    block.depth = std::min(kSumBlock, w.depth - k);
    MultiplyPanels(block);
    block.addend = u.data;
    block.addend_stride = u.stride;
  }
}

}  // namespace

int64_t PackedBytes(Precision precision, int64_t depth, int64_t cols) {
  assert(precision == Precision::kFloat32);
  (void)precision;
  return RoundUp(cols, kColumnUnit) * depth * int64_t{sizeof(float)};
}

PackedColumns Pack(Precision precision, Matrix<const float> weights,
                   absl::Span<const ColumnRange> ranges, std::byte* to) {
  assert(precision == Precision::kFloat32);
  const int64_t cols =
      PackFloat32(weights, ranges, reinterpret_cast<float*>(to));
  return {precision, weights.rows, cols, to};
}

void MultiplyPacked(Matrix<const float> x, const PackedColumns& w,
                    const float* bias, Matrix<float> u) {
  assert(x.cols == w.depth && u.cols == w.cols && u.rows == x.rows);
  MultiplyFloat32(x, w, bias, u);
}

}  // namespace recurve::cpu
