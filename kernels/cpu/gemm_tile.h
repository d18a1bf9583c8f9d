// The serial part of a matrix product: one block of rows by one block of
// columns, on one thread, in that thread's caches.
#ifndef RECURVE_KERNELS_CPU_GEMM_TILE_H_
#define RECURVE_KERNELS_CPU_GEMM_TILE_H_

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// Terms of one uninterrupted sum. Element (i, j) of a product is
//   sum over blocks of fma(a_ik, b_kj, ... fma(a_i1, b_1j, a_i0 b_0j)),
// blocks added in order: nothing else enters, neither the place of the element
// in its tile nor the size of any tile.
inline constexpr int64_t kSumBlock = kRowBlock;

// Blocks start at columns that are multiples of this. A multiple of the panel
// width, three vectors, on every instruction set.
inline constexpr int64_t kColumnUnit = 48;

// Most rows of a block whose a is transposed: these are packed together.
inline constexpr int64_t kMaxTransposedRows = 256;

// What a thread packs factors into: rows of a, columns of b. Words are floats,
// or two bf16 each.
inline constexpr int64_t kPackedWordsA = kMaxTransposedRows * kSumBlock;
inline constexpr int64_t kPackedWordsB = 6 * kSumBlock * kColumnUnit;
inline constexpr int64_t kGemmScratchBytes =
    (kPackedWordsA + kPackedWordsB) * static_cast<int64_t>(sizeof(float));

// A row-major matrix or its transpose.
struct GemmOperand {
  const float* data = nullptr;
  int64_t stride = 0;
  bool transposed = false;

  // Element (row, col), after any transposition.
  const float* at(int64_t row, int64_t col) const {
    return transposed ? data + col * stride + row : data + row * stride + col;
  }
};

struct GemmBlock {
  GemmOperand a;  // rows x depth
  GemmOperand b;  // depth x cols
  float* c = nullptr;
  int64_t c_stride = 0;
  int64_t rows = 0;  // at most kMaxTransposedRows if a is transposed
  int64_t cols = 0;
  int64_t depth = 0;  // at most kSumBlock
  Destination destination = Destination::kOverwrite;
};

// Columns whose part of b, `words` of each, is packed together. Beside packed
// rows of a, which are read but once for each part of b, that part has to stay
// in a second-level cache of 512 KiB.
inline int64_t ColumnsPackedTogether(int64_t words, bool packs_a) {
  constexpr int64_t kMaxUnits = 16;
  const int64_t budget = packs_a ? kSumBlock * 3 / 2 : 6 * kSumBlock;
  const int64_t units = budget / (words > 0 ? words : 1);
  return (units < kMaxUnits ? units : kMaxUnits) * kColumnUnit;
}

// A block of a product whose b was packed beforehand, in panels of kColumnUnit
// columns: [panels][depth of all b][kColumnUnit], 0 past the last column.
struct PanelBlock {
  const float* a = nullptr;  // row-major
  int64_t a_stride = 0;
  const float* b = nullptr;  // the first panel's first row of the block
  int64_t panel_stride = 0;  // floats from one panel to the next
  float* c = nullptr;
  int64_t c_stride = 0;
  // c = addend + a b if not null. Row r's is at addend + r * addend_stride: a
  // bias with stride 0, or c itself.
  const float* addend = nullptr;
  int64_t addend_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t depth = 0;  // at most kSumBlock
};

void MultiplyPanels(const PanelBlock& block);

// What a thread packs into: kGemmScratchBytes, its own from its first call on.
struct GemmScratch {
  float* a = nullptr;  // [kPackedWordsA]
  float* b = nullptr;  // [kPackedWordsB]
};
GemmScratch ThreadScratch();

// c = a b, c += a b, or the sums of c go on: they are where those of a b start.
// Works in the thread's scratch.
void MultiplyBlock(const GemmBlock& block);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_GEMM_TILE_H_
