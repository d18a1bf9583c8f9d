// Rows whose length is no multiple of the vector length, and sums whose order
// does not depend on it.

#if defined(RECURVE_KERNELS_CPU_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RECURVE_KERNELS_CPU_LANES_INL_H_
#undef RECURVE_KERNELS_CPU_LANES_INL_H_
#else
#define RECURVE_KERNELS_CPU_LANES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Sums keep this many partial sums, on every instruction set.
inline constexpr int64_t kSumLanes = 16;
// Terms added in float before the partial sums go into a double.
inline constexpr int64_t kSumBlock = 512;

using DF = hn::CappedTag<float, kSumLanes>;
using VF = hn::Vec<DF>;
inline constexpr int64_t kVectorLanes = hn::MaxLanes(DF());

// The first min(count, kVectorLanes) floats at `from`, then `padding`. Reads no
// further: a masked load may, on some instruction sets.
HWY_INLINE VF LoadPart(const float* from, int64_t count, float padding) {
  const DF d;
  if (count >= kVectorLanes) return hn::LoadU(d, from);
  HWY_ALIGN float part[kVectorLanes];
  std::fill(part, part + kVectorLanes, padding);
  std::memcpy(part, from, count * sizeof(float));
  return hn::Load(d, part);
}

HWY_INLINE void StorePart(VF v, int64_t count, float* to) {
  const DF d;
  if (count >= kVectorLanes) return hn::StoreU(v, d, to);
  HWY_ALIGN float part[kVectorLanes];
  hn::Store(v, d, part);
  std::memcpy(to, part, count * sizeof(float));
}

// The sum of count terms, in an order that only count decides. term(i, n) gives
// terms [i, i + kVectorLanes) as a vector, zeros where there are fewer than
// kVectorLanes left; n is how many are left.
template <class Term>
HWY_INLINE double FixedOrderSum(int64_t count, const Term& term) {
  const DF d;
  constexpr int64_t kVectors = kSumLanes / kVectorLanes;
  double total = 0.0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const int64_t end = std::min(count, begin + kSumBlock);
    VF sums[kVectors];
    for (VF& sum : sums) sum = hn::Zero(d);
    for (int64_t i = begin; i < end; i += kSumLanes) {
      for (int64_t k = 0; k < kVectors; ++k) {
        const int64_t at = i + k * kVectorLanes;
        if (at < end) sums[k] = hn::Add(sums[k], term(at, end - at));
      }
    }
    HWY_ALIGN float lanes[kSumLanes];
    for (int64_t k = 0; k < kVectors; ++k) {
      hn::Store(sums[k], d, lanes + k * kVectorLanes);
    }
    double block[kSumLanes];
    std::copy(lanes, lanes + kSumLanes, block);
    for (int64_t half = kSumLanes / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k < half; ++k) block[k] += block[k + half];
    }
    total += block[0];
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#endif  // RECURVE_KERNELS_CPU_LANES_INL_H_
