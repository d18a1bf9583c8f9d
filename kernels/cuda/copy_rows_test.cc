#include "kernels/cuda/copy_rows.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/copy_rows.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

// Words of all kinds: what is copied may be halves of doubles.
std::vector<uint32_t> RandomWords(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> words(count);
  for (uint32_t& word : words) word = random();
  return words;
}

template <typename T>
Matrix<float> AsFloats(Matrix<T> words) {
  return {reinterpret_cast<float*>(words.data), words.rows, words.cols,
          words.stride};
}

void Check(int64_t from_count, int64_t to_count,
           const std::vector<int32_t>& from_rows,
           const std::vector<int32_t>& to_rows, Width from_width,
           Width to_width) {
  const int64_t cols = from_width.cols;
  std::vector<uint32_t> words = RandomWords(from_count * cols, 1);
  std::vector<uint32_t> expected = RandomWords(to_count * cols, 2);
  const DeviceMatrix<uint32_t> from(from_count, from_width, words),
      to(to_count, to_width, expected);
  const DeviceArray<int32_t> device_from_rows(from_rows),
      device_to_rows(to_rows);
  const int64_t count = from_rows.size();
  ASSERT_EQ(CopyRows({AsFloats(from.view()), device_from_rows.data(),
                      AsFloats(to.view()), device_to_rows.data(), count},
                     nullptr),
            cudaSuccess);
  ASSERT_TRUE(cpu::CopyRows(
                  {{reinterpret_cast<float*>(words.data()), from_count, cols},
                   from_rows.data(),
                   {reinterpret_cast<float*>(expected.data()), to_count, cols},
                   to_rows.data(),
                   count})
                  .ok());
  to.ExpectSame(expected);
}

TEST(CudaCopyRows, IsTheCpuBackends) {
  for (const Width& width : kWidths) {
    Check(5, 4, {4, 0, 4}, {1, 3, 0}, width, width);
    Check(1, 1, {0}, {0}, width, width);
    Check(2, 2, {}, {}, width, width);
  }
}

TEST(CudaCopyRows, EitherMatrixMayBeUnaligned) {
  Check(3, 3, {2, 0}, {0, 1}, kAligned, kUnaligned);
  Check(3, 3, {2, 0}, {0, 1}, kUnaligned, kAligned);
}

// More rows than the grid has warps.
TEST(CudaCopyRows, WalksRowsInStrides) {
  const int32_t rows = 2048 * 8 + 3;
  std::vector<int32_t> from_rows, to_rows;
  for (int32_t i = 0; i < rows; ++i) {
    from_rows.push_back(i);
    to_rows.push_back(rows - 1 - i);
  }
  Check(rows, rows, from_rows, to_rows, {1, 1}, {1, 1});
}

}  // namespace
}  // namespace recurve::cuda
