#include "kernels/cpu/window.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/sequence_blocks.h"

namespace recurve::cpu {
namespace {

void CopyOrZero(const float* from, int64_t count, float* to) {
  if (from == nullptr) {
    std::fill_n(to, count, 0.0f);
  } else if (from != to) {
    std::copy_n(from, count, to);
  }
}

// The row whose copy stands beside row r in `direction`, or -1.
int64_t NeighbourRow(const SequenceBlock& block, int64_t r, int64_t direction) {
  if (direction == 0) return r > block.begin_row ? r - 1 : -1;
  return r + 1 < block.end_row ? r + 1 : -1;
}

// The row beside which row r's copy stands in `direction`, or -1.
int64_t HostRow(const SequenceBlock& block, int64_t r, int64_t direction) {
  return NeighbourRow(block, r, 1 - direction);
}

}  // namespace

void FillWindowRows(const SequenceLayout& layout, Matrix<const float> x,
                    Matrix<const float> x_previous, Matrix<float> window_rows) {
  const int64_t directions =
      window_rows.cols / std::max<int64_t>(2 * x.cols, 1);
  ForEachSequenceBlock(layout, x.cols, 1, [&](const SequenceBlock& block) {
    const int64_t j = block.channel;
    const float* before =
        x_previous ? x_previous.row(block.sequence) + j : nullptr;
    for (int64_t r = block.begin_row; r < block.end_row; ++r) {
      for (int64_t d = 0; d < directions; ++d) {
        float* to = window_rows.row(r) + d * 2 * x.cols + j;
        const int64_t neighbour = NeighbourRow(block, r, d);
        const float* outside = d == 0 ? before : nullptr;
        CopyOrZero(x.row(r) + j, block.count, to);
        CopyOrZero(neighbour < 0 ? outside : x.row(neighbour) + j, block.count,
                   to + x.cols);
      }
    }
  });
}

void GatherWindowGradient(const SequenceLayout& layout,
                          Matrix<const float> dwindow_rows, Matrix<float> dx) {
  const int64_t directions =
      dwindow_rows.cols / std::max<int64_t>(2 * dx.cols, 1);
  ForEachSequenceBlock(layout, dx.cols, 1, [&](const SequenceBlock& block) {
    for (int64_t r = block.begin_row; r < block.end_row; ++r) {
      float* to = dx.row(r) + block.channel;
      std::fill_n(to, block.count, 0.0f);
      for (int64_t d = 0; d < directions; ++d) {
        const int64_t column = d * 2 * dx.cols + block.channel;
        const float* own = dwindow_rows.row(r) + column;
        const int64_t host = HostRow(block, r, d);
        for (int64_t j = 0; j < block.count; ++j) to[j] += own[j];
        if (host < 0) continue;
        const float* copy = dwindow_rows.row(host) + column + dx.cols;
        for (int64_t j = 0; j < block.count; ++j) to[j] += copy[j];
      }
    }
  });
}

void StoreLastRows(const SequenceLayout& layout, Matrix<const float> x,
                   Matrix<const float> x_previous, Matrix<float> x_last) {
  for (int64_t b = 0; b < layout.num_sequences; ++b) {
    const bool empty = layout.cu_seqlens[b] == layout.cu_seqlens[b + 1];
    const float* before = x_previous ? x_previous.row(b) : nullptr;
    CopyOrZero(empty ? before : x.row(layout.cu_seqlens[b + 1] - 1), x.cols,
               x_last.row(b));
  }
}

}  // namespace recurve::cpu
