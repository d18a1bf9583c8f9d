#include "kernels/cpu/column_sum.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/parallel.h"

namespace recurve::cpu {
namespace {

constexpr int64_t kColumns = 128;  // of one piece of work

void SumRows(Matrix<const float> m, float* sums) {
  std::fill_n(sums, m.cols, 0.0f);
  for (int64_t r = 0; r < m.rows; ++r) {
    const float* row = m.row(r);
#pragma omp simd
    for (int64_t j = 0; j < m.cols; ++j) sums[j] += row[j];
  }
}

void SumBlocks(Matrix<const float> m, float* sums) {
  std::fill_n(sums, m.cols, 0.0f);
  for (int64_t begin = 0; begin < m.rows; begin += kRowBlock) {
    float block[kColumns];
    SumRows(m.row_range(begin, std::min(kRowBlock, m.rows - begin)), block);
    for (int64_t j = 0; j < m.cols; ++j) sums[j] += block[j];
  }
}

}  // namespace

void ColumnSums(Matrix<const float> m, float* sums) {
  const int64_t pieces = (m.cols + kColumns - 1) / kColumns;
  ParallelFor(pieces, m.rows * m.cols, [&](int64_t piece) {
    const int64_t begin = piece * kColumns;
    const int64_t count = std::min(kColumns, m.cols - begin);
    SumBlocks(m.columns(begin, count), sums + begin);
  });
}

}  // namespace recurve::cpu
