// Products of rows with columns of a weight matrix that were packed once, into
// the order in which the products read them.
//
// A row's result depends neither on the other rows nor on how many there are
// (docs/determinism.md). All functions run on the calling thread alone: the
// caller cuts the work. Rows are converted to lower precisions in the thread's
// scratch (gemm_tile.h). Matrices of 0 rows or columns are allowed; depth is at
// least 1, and at most kMaxNarrowDepth but for float32.
#ifndef RECURVE_KERNELS_CPU_PACKED_PRODUCT_H_
#define RECURVE_KERNELS_CPU_PACKED_PRODUCT_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/dot_tile.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// Most terms of an int8 sum that fits into 32 bits: 128 * 127 * depth < 2^31.
inline constexpr int64_t kMaxNarrowDepth = 128 << 10;

struct ColumnRange {
  int64_t begin = 0;
  int64_t count = 0;
};

// A packed copy of some columns of a [depth, *] weight matrix. Does not own
// `data`. The layout is the same on every instruction set.
struct PackedColumns {
  Precision precision = Precision::kFloat32;
  int64_t depth = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;  // aligned to kAlignment
};

// Bytes of a packed copy: a multiple of kAlignment.
int64_t PackedBytes(Precision precision, int64_t depth, int64_t cols);

// Packs columns of weights [depth, *] to `to`, PackedBytes of them, aligned to
// kAlignment. Packed column j is the j-th of the ranges' columns, in order.
PackedColumns Pack(Precision precision, Matrix<const float> weights,
                   absl::Span<const ColumnRange> ranges, std::byte* to);

// u = x w, plus bias [cols] in every row if it isn't null. x [rows, depth],
// u [rows, cols]; u must not overlap x.
//
//   * kFloat32: the bits of MatMul and MatMulWithBias (gemm.h).
//   * kBfloat16: both factors rounded to bf16, nearest even; sums in float32.
//   * kInt8: factors scaled to [-127, 127] by row of x and by column of w; sums
//     in integers, exact. All of a row of u is NaN if x's row has an element
//     that isn't finite, and so is a column of u for w's column.
//
// Reads w once for up to 64 rows, once more for every further 64.
void MultiplyPacked(Matrix<const float> x, const PackedColumns& w,
                    const float* bias, Matrix<float> u,
                    DotProducts how = DotProducts::kFastest);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_PACKED_PRODUCT_H_
