// Factors of products in fewer than 32 bits, packed for dot products of
// several terms at once: a word of 32 bits holds two bf16 or four int8 of
// consecutive depths, the first in the lowest bits, 0 past the last depth.
//
// bf16: nearest, ties to even; NaN stays NaN; what would be subnormal is 0, as
// the instructions for bf16 take it.
//
// int8: x is stored as round(x / scale), ties to even, scale = max |x| / 127
// over a row of activations or a column of weights; nothing saturates. Where
// all are 0, or so small that 127 / max overflows, the scale is 0. Where one is
// not finite, the scale is NaN.
#ifndef RECURVE_KERNELS_CPU_NARROW_H_
#define RECURVE_KERNELS_CPU_NARROW_H_

#include <cstdint>

#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// Terms in a word: 1 for float32.
constexpr int64_t TermsOfWord(Precision precision) {
  return precision == Precision::kFloat32    ? 1
         : precision == Precision::kBfloat16 ? 2
                                             : 4;
}

constexpr int64_t WordsOf(Precision precision, int64_t depth) {
  const int64_t terms = TermsOfWord(precision);
  return (depth + terms - 1) / terms;
}

// Converting a row may write this many words past its end.
inline constexpr int64_t kRowSlackWords = 16;

// Rows x to words [rows][WordsOf(kBfloat16, x.cols)].
void RoundRows(Matrix<const float> x, uint32_t* to);

// The same values as floats, [rows][2 * WordsOf(kBfloat16, x.cols)].
void RoundRowsWide(Matrix<const float> x, float* to);

// Rows x to words [rows][WordsOf(kInt8, x.cols)] of unsigned bytes, each the
// int8 plus kInt8Offset, and scales [rows].
inline constexpr int32_t kInt8Offset = 128;
void QuantizeRows(Matrix<const float> x, uint32_t* to, float* scales);

// Columns w [depth, count] to words [WordsOf(kBfloat16, depth)][stride].
void RoundColumns(Matrix<const float> w, int64_t stride, uint32_t* to);

// Columns w [depth, count] to words [WordsOf(kInt8, depth)][stride] of int8,
// then a row of int32, -kInt8Offset times a column's sum (where a sum of
// products with QuantizeRows' bytes has to start), then a row of scales.
inline constexpr int64_t kInt8FooterRows = 2;
void QuantizeColumns(Matrix<const float> w, int64_t stride, uint32_t* to);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_NARROW_H_
