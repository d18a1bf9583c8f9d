#include "third_party/toolchain_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "third_party/toolchain_simd.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move these two above it.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recurve {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void ExpInPlace(float* values, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Exp(d, hn::LoadU(d, values + i)), d, values + i);
  }
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) {
    hn::StoreU(hn::Exp(one, hn::LoadU(one, values + i)), one, values + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve {

HWY_EXPORT(ExpInPlace);

void ExpInPlace(float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ExpInPlace)(values, count);
}

}  // namespace recurve
#endif  // HWY_ONCE
