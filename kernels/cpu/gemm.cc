#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "kernels/cpu/bfloat16_block.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/parallel.h"
#include "kernels/precision.h"
#include "kernels/shape_check.h"
#include "kernels/status.h"

namespace recurve::cpu {
namespace {

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return DivideUp(a, b) * b; }

// How a product is cut among threads. The cut touches no sum, so it may follow
// the shape and the team.
struct Cut {
  int64_t rows = 0;  // of a block
  int64_t cols = 0;
};

Cut ChooseCut(const Matrix<float>& c, int64_t words, bool a_transposed) {
  // Fewer rows do not pay for packing b.
  constexpr int64_t kMinRows = 256;
  static_assert(kMinRows <= kMaxTransposedRows);
  const int64_t threads = omp_get_max_threads();
  const int64_t wanted = threads == 1 ? 1 : 4 * threads;  // to end together
  if (a_transposed || c.rows <= kMinRows) {
    const int64_t row_blocks = DivideUp(c.rows, kMinRows);
    const int64_t column_blocks = DivideUp(wanted, row_blocks);
    return {kMinRows, RoundUp(DivideUp(c.cols, column_blocks), kColumnUnit)};
  }
  const int64_t cols = ColumnsPackedTogether(words, a_transposed);
  const int64_t row_blocks = DivideUp(wanted, DivideUp(c.cols, cols));
  return {RoundUp(std::max(kMinRows, DivideUp(c.rows, row_blocks)), 64), cols};
}

GemmOperand Part(const Factor<float>& factor, int64_t row, int64_t col) {
  const GemmOperand whole{factor.matrix.data, factor.matrix.stride,
                          factor.transposed};
  return {whole.at(row, col), whole.stride, whole.transposed};
}

// c is, or takes up, a[:, begin : begin + depth] b[begin : begin + depth, :].
void MultiplyDepth(const Factor<float>& a, const Factor<float>& b,
                   Matrix<float> c, int64_t begin, int64_t depth,
                   Destination destination, Precision precision) {
  const Cut cut = ChooseCut(c, WordsOf(precision, depth), a.transposed);
  const int64_t column_blocks = DivideUp(c.cols, cut.cols);
  const int64_t blocks = column_blocks * DivideUp(c.rows, cut.rows);
  // A multiply-add costs a fraction of what loops over elements do with one.
  const int64_t elements = c.rows * c.cols * depth / 16;
  ParallelFor(blocks, elements, [&](int64_t index) {
    const int64_t row = index / column_blocks * cut.rows;
    const int64_t col = index % column_blocks * cut.cols;
    GemmBlock block;
    block.a = Part(a, row, begin);
    block.b = Part(b, begin, col);
    block.c = c.row(row) + col;
    block.c_stride = c.stride;
    block.rows = std::min(cut.rows, c.rows - row);
    block.cols = std::min(cut.cols, c.cols - col);
    block.depth = depth;
    block.destination = destination;
    if (precision == Precision::kFloat32) {
      MultiplyBlock(block);
    } else {
      MultiplyBfloat16Block(block);
    }
  });
}

void FillRows(Matrix<float> c, const float* bias) {
  ParallelFor(c.rows, c.rows * c.cols, [&](int64_t r) {
    if (bias == nullptr) {
      std::fill_n(c.row(r), c.cols, 0.0f);
    } else {
      std::copy_n(bias, c.cols, c.row(r));
    }
  });
}

}  // namespace

absl::Status MatMul(const Factor<float>& a, const Factor<float>& b,
                    Matrix<float> c, Destination destination,
                    Precision precision) {
  assert(precision != Precision::kInt8);
  RETURN_IF_ERROR(CheckProduct(a, b, c.rows, c.cols));
  if (c.rows == 0 || c.cols == 0) return absl::OkStatus();
  const int64_t summed = a.cols();
  if (summed == 0 && destination == Destination::kOverwrite) {
    FillRows(c, nullptr);
  }
  for (int64_t begin = 0; begin < summed; begin += kSumBlock) {
    MultiplyDepth(a, b, c, begin, std::min(kSumBlock, summed - begin),
                  begin == 0 ? destination : Destination::kAccumulate,
                  precision);
  }
  return absl::OkStatus();
}

absl::Status MatMulWithBias(const Factor<float>& a, const Factor<float>& b,
                            const float* bias, Matrix<float> c,
                            Precision precision) {
  FillRows(c, bias);
  return MatMul(a, b, c, Destination::kAccumulate, precision);
}

}  // namespace recurve::cpu
