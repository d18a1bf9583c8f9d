// The padded [L, B] layout of the libraries beside the packed one of ours. A
// masked step is dropped; each sequence's other steps come in order.
#ifndef RECURVE_TESTS_GOLDEN_PADDED_GRID_H_
#define RECURVE_TESTS_GOLDEN_PADDED_GRID_H_

#include <cstdint>
#include <vector>

namespace recurve::golden {

class PaddedGrid {
 public:
  // `padded` [L, B] says which steps are masked; empty = none.
  PaddedGrid(int64_t length, int64_t batch_size,
             const std::vector<int64_t>& padded);

  int64_t length() const { return length_; }
  int64_t batch_size() const { return batch_size_; }
  const std::vector<int64_t>& cu_seqlens() const { return cu_seqlens_; }

  // [L, B, cols] to [N, cols].
  std::vector<float> Pack(const std::vector<float>& grid, int64_t cols) const;
  // [N, cols] to [L, B, cols], with `filling` [cols] at masked steps; empty =
  // 0.
  std::vector<float> Scatter(const std::vector<float>& rows, int64_t cols,
                             const std::vector<float>& filling) const;
  // The sum of the masked steps of a grid, [cols].
  std::vector<double> SumOfPadding(const std::vector<float>& grid,
                                   int64_t cols) const;

 private:
  const int64_t length_;
  const int64_t batch_size_;
  std::vector<int64_t> cu_seqlens_;
  std::vector<int64_t> rows_;  // [L, B], -1 = masked
};

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_PADDED_GRID_H_
