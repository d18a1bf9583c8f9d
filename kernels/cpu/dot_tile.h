// Products of rows and columns whose factors are bf16 or int8 (narrow.h), on
// one thread, in that thread's caches.
#ifndef RECURVE_KERNELS_CPU_DOT_TILE_H_
#define RECURVE_KERNELS_CPU_DOT_TILE_H_

#include <cstdint>

namespace recurve::cpu {

// What sums of products are made with. All give the same bits.
enum class DotProducts {
  kFastest,
  kNative,    // AVX512_BF16, AVX512_VNNI, AVX_VNNI where the machine has them
  kPortable,  // factors widened and multiplied one by one
};

struct DotBlock {
  const uint32_t* x = nullptr;        // [rows][words]
  const float* row_scales = nullptr;  // [rows], int8 only
  // [panels][words + footer][kColumnUnit], the footer that of QuantizeColumns
  // for int8 and absent for bf16.
  const uint32_t* w = nullptr;
  int64_t words = 0;
  float* u = nullptr;
  int64_t u_stride = 0;
  // What is added to if not null. Row r's is at addend + r * addend_stride: a
  // bias with stride 0, or u itself.
  const float* addend = nullptr;
  int64_t addend_stride = 0;
  bool continues = false;  // bf16 only: sums start from u, not from 0
  int64_t rows = 0;
  int64_t cols = 0;
};

// Whether products of so many rows are made of pairs of bf16.
bool TakesBfloat16Pairs(int64_t rows, DotProducts how);

// Element (i, j) of u is one sum in float32: for each word in order, fma of its
// second terms, then fma of its first, subnormal sums being 0 (as VDPBF16PS
// does). `pairs` is as TakesBfloat16Pairs says; if false, x is floats,
// [rows][2 * words].
void MultiplyBfloat16(const DotBlock& block, bool pairs);

// Element (i, j) of u is float(sum) * row_scales[i] * the column's scale, the
// sum exact in 32 bits.
void MultiplyInt8(const DotBlock& block, DotProducts how);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_DOT_TILE_H_
