// Vectorised sigmoid and tanh, accurate to a few units in the last place over
// all of float (math_test.cc states and checks the bound). Every operation is
// exact, correctly rounded or a fused multiply-add lane by lane, so a lane's
// bits do not depend on how many lanes its vector has: loops may finish their
// tails one lane at a time.
//
// Include guard per target, as Highway's *-inl.h files have it.
#if defined(RECURVE_KERNELS_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECURVE_KERNELS_CPU_MATH_INL_H_
#undef RECURVE_KERNELS_CPU_MATH_INL_H_
#else
#define RECURVE_KERNELS_CPU_MATH_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls f(d, j) for j from 0 to count: with full vectors while they fit, then
// lane by lane, so nothing is read or written past the end.
template <typename F>
HWY_INLINE void ForEachVector(int64_t count, const F& f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes) f(d, j);
  for (const hn::CappedTag<float, 1> one; j < count; ++j) f(one, j);
}

// exp(x) = power * (1 + fraction) for -87.3 < x <= 0, power a power of two.
template <class V>
struct ExpParts {
  V power;
  V fraction;  // within [-0.3, 0.42], relatively accurate near 0
};

// exp(x) - 1 on |x| <= ln(2)/2 is x + x^2 p(x), p a minimax polynomial (Cephes'
// expf). x = n ln(2) + r, with ln(2) in two parts so that r is accurate.
template <class D, class V = hn::Vec<D>>
HWY_INLINE ExpParts<V> SplitExp(D d, V x) {
  // Adding 1.5 * 2^23 rounds to an integer, left in the low bits of the sum.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);

  V p = hn::Set(d, 1.9875691500e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.3981999507e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 8.3334519073e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.1665795894e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.6666665459e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.0000001201e-1f));

  const hn::RebindToUnsigned<D> du;
  const auto exponent = hn::Add(hn::BitCast(du, shifted), hn::Set(du, 127));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(exponent));
  return {power, hn::MulAdd(hn::Mul(r, r), p, r)};
}

// 1 / (1 + exp(-x)). Results below 2^-126 are 0; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  // With e = exp(-|x|) <= 1 nothing overflows or cancels: 1 / (1 + e) for
  // x >= 0, else e / (1 + e).
  const V one = hn::Set(d, 1.0f);
  const V negative = hn::Neg(hn::Abs(x));
  const ExpParts<V> parts = SplitExp(d, negative);
  V e = hn::MulAdd(parts.power, parts.fraction, parts.power);
  const auto underflow = hn::Lt(negative, hn::Set(d, -87.336f));
  e = hn::IfThenZeroElse(underflow, e);
  const auto below_zero = hn::Lt(x, hn::Zero(d));
  return hn::Div(hn::IfThenElse(below_zero, e, one), hn::Add(one, e));
}

// x (1 - x) times `by`: the slope of a sigmoid whose value is x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SigmoidSlope(D d, V x, V by) {
  return hn::Mul(by, hn::Mul(x, hn::Sub(hn::Set(d, 1.0f), x)));
}

// NaN stays NaN, -0 stays -0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  // With m = exp(-2|x|) - 1, tanh|x| = -m / (2 + m), and m keeps its relative
  // accuracy near 0. From |x| = 9.02 on the result rounds to 1.
  const V magnitude = hn::Abs(x);
  const ExpParts<V> parts = SplitExp(d, hn::Mul(hn::Set(d, -2.0f), magnitude));
  const V m = hn::MulAdd(parts.power, parts.fraction,
                         hn::Sub(parts.power, hn::Set(d, 1.0f)));
  V result = hn::Div(m, hn::Sub(hn::Set(d, -2.0f), m));
  const auto saturated = hn::Gt(magnitude, hn::Set(d, 10.0f));
  result = hn::IfThenElse(saturated, hn::Set(d, 1.0f), result);
  return hn::CopySign(result, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
