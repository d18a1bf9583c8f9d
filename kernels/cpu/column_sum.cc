#include "kernels/cpu/column_sum.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "kernels/cpu/parallel.h"

namespace recurve::cpu {
namespace {

constexpr int64_t kColumns = 128;  // of one piece of work

void AddRows(Matrix<const float> m, float* sums) {
  for (int64_t r = 0; r < m.rows; ++r) {
    const float* row = m.row(r);
#pragma omp simd
    for (int64_t j = 0; j < m.cols; ++j) sums[j] += row[j];
  }
}

void AddBlocks(Matrix<const float> m, float* sums) {
  AddRows(m.row_range(0, std::min(kRowBlock, m.rows)), sums);
  for (int64_t begin = kRowBlock; begin < m.rows; begin += kRowBlock) {
    float block[kColumns] = {};
    AddRows(m.row_range(begin, std::min(kRowBlock, m.rows - begin)), block);
    for (int64_t j = 0; j < m.cols; ++j) sums[j] += block[j];
  }
}

}  // namespace

void ColumnSums(Matrix<const float> m, float* sums, Destination destination) {
  assert(destination != Destination::kAccumulate);
  const int64_t pieces = (m.cols + kColumns - 1) / kColumns;
  ParallelFor(pieces, m.rows * m.cols, [&](int64_t piece) {
    const int64_t begin = piece * kColumns;
    const int64_t count = std::min(kColumns, m.cols - begin);
    if (destination == Destination::kOverwrite) {
      std::fill_n(sums + begin, count, 0.0f);
    }
    AddBlocks(m.columns(begin, count), sums + begin);
  });
}

}  // namespace recurve::cpu
