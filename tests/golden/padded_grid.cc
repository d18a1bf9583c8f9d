#include "tests/golden/padded_grid.h"

#include <algorithm>

namespace recurve::golden {

PaddedGrid::PaddedGrid(int64_t length, int64_t batch_size,
                       const std::vector<int64_t>& padded)
    : length_(length),
      batch_size_(batch_size),
      cu_seqlens_(1, 0),
      rows_(length * batch_size, -1) {
  int64_t row = 0;
  for (int64_t b = 0; b < batch_size; ++b) {
    for (int64_t t = 0; t < length; ++t) {
      const int64_t step = t * batch_size + b;
      if (padded.empty() || padded[step] == 0) rows_[step] = row++;
    }
    cu_seqlens_.push_back(row);
  }
}

std::vector<float> PaddedGrid::Pack(const std::vector<float>& grid,
                                    int64_t cols) const {
  std::vector<float> packed(cu_seqlens_.back() * cols);
  for (size_t step = 0; step < rows_.size(); ++step) {
    if (rows_[step] < 0) continue;
    std::copy_n(grid.begin() + step * cols, cols,
                packed.begin() + rows_[step] * cols);
  }
  return packed;
}

std::vector<float> PaddedGrid::Scatter(
    const std::vector<float>& rows, int64_t cols,
    const std::vector<float>& filling) const {
  std::vector<float> grid(rows_.size() * cols, 0.0f);
  for (size_t step = 0; step < rows_.size(); ++step) {
    const auto to = grid.begin() + step * cols;
    if (rows_[step] >= 0) {
      std::copy_n(rows.begin() + rows_[step] * cols, cols, to);
    } else {
      std::copy(filling.begin(), filling.end(), to);
    }
  }
  return grid;
}

std::vector<double> PaddedGrid::SumOfPadding(const std::vector<float>& grid,
                                             int64_t cols) const {
  std::vector<double> sum(cols, 0.0);
  for (size_t step = 0; step < rows_.size(); ++step) {
    if (rows_[step] >= 0) continue;
    for (int64_t c = 0; c < cols; ++c) sum[c] += grid[step * cols + c];
  }
  return sum;
}

}  // namespace recurve::golden
