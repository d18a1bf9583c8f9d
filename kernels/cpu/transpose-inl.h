// Small transpositions, in registers.

#if defined(RECURVE_KERNELS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECURVE_KERNELS_CPU_TRANSPOSE_INL_H_
#undef RECURVE_KERNELS_CPU_TRANSPOSE_INL_H_
#else
#define RECURVE_KERNELS_CPU_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Transposes the 4 x 4 elements whose row r is at from + r * stride.
// store(r, v) takes row r of the result.
template <class T, class F>
HWY_INLINE void TransposeFour(const T* from, int64_t stride, const F& store) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::FixedTag<T, 4> d;
  const auto r0 = hn::LoadU(d, from);
  const auto r1 = hn::LoadU(d, from + stride);
  const auto r2 = hn::LoadU(d, from + 2 * stride);
  const auto r3 = hn::LoadU(d, from + 3 * stride);
  const auto even_low = hn::InterleaveLower(d, r0, r2);
  const auto odd_low = hn::InterleaveLower(d, r1, r3);
  const auto even_high = hn::InterleaveUpper(d, r0, r2);
  const auto odd_high = hn::InterleaveUpper(d, r1, r3);
  store(0, hn::InterleaveLower(d, even_low, odd_low));
  store(1, hn::InterleaveUpper(d, even_low, odd_low));
  store(2, hn::InterleaveLower(d, even_high, odd_high));
  store(3, hn::InterleaveUpper(d, even_high, odd_high));
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#endif  // RECURVE_KERNELS_CPU_TRANSPOSE_INL_H_
