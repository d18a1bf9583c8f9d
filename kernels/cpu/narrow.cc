#include "kernels/cpu/narrow.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/precision.h"
#include "kernels/tensor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/narrow.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"

#ifndef RECURVE_KERNELS_CPU_NARROW_CC_ONCE_
#define RECURVE_KERNELS_CPU_NARROW_CC_ONCE_
namespace recurve::cpu {

struct Int8Scale {
  float scale = 0.0f;
  float inverse = 0.0f;
};

// Magnitudes are compared as integers: they are ordered alike, and what isn't
// finite comes last.
inline Int8Scale ScaleOf(int32_t max_bits) {
  float max;
  std::memcpy(&max, &max_bits, sizeof(max));
  if (!std::isfinite(max)) {
    return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  }
  const float inverse = 127.0f / max;
  return std::isfinite(inverse) ? Int8Scale{max / 127.0f, inverse}
                                : Int8Scale{};
}

}  // namespace recurve::cpu
#endif  // RECURVE_KERNELS_CPU_NARROW_CC_ONCE_

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;
using DU = hn::RebindToUnsigned<DF>;
using VU = hn::Vec<DU>;

// v rounded to bf16, in the upper halves.
HWY_INLINE VU Rounded(VF v) {
  const DU d;
  const VU bits = hn::BitCast(d, v);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
  const VU near = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
  const VU kept = hn::And(near, hn::Set(d, 0xffff0000));
  const VU sign = hn::And(bits, hn::Set(d, 0x80000000));
  const auto subnormal =
      hn::Eq(hn::And(kept, hn::Set(d, 0x7f800000)), hn::Zero(d));
  const VU nan = hn::Or(sign, hn::Set(d, 0x7fc00000));
  const VU number = hn::IfThenElse(subnormal, sign, kept);
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), nan, number);
}

HWY_INLINE VI MagnitudeBits(VF v) { return hn::BitCast(DI(), hn::Abs(v)); }

// Vectors of a row, the last filled up with zeros: f(k, vector).
template <class F>
HWY_INLINE void ForEachVector(const float* x, int64_t depth, const F& f) {
  int64_t k = 0;
  for (; k + kVectorLanes <= depth; k += kVectorLanes) {
    f(k, hn::LoadU(DF(), x + k));
  }
  if (k < depth) f(k, LoadPart(x + k, depth - k, 0.0f));
}

void RoundRowsKernel(const Matrix<const float>& x, uint32_t* to) {
  const hn::Rebind<uint16_t, DF> d16;
  for (int64_t r = 0; r < x.rows; ++r) {
    auto* out = reinterpret_cast<uint16_t*>(
        to + r * WordsOf(Precision::kBfloat16, x.cols));
    ForEachVector(x.row(r), x.cols, [&](int64_t k, VF v) HWY_ATTR {
      const VU half = hn::ShiftRight<16>(Rounded(v));
      hn::StoreU(hn::DemoteTo(d16, hn::BitCast(DI(), half)), d16, out + k);
    });
  }
}

void RoundRowsWideKernel(const Matrix<const float>& x, float* to) {
  const DF d;
  for (int64_t r = 0; r < x.rows; ++r) {
    float* out = to + r * 2 * WordsOf(Precision::kBfloat16, x.cols);
    ForEachVector(x.row(r), x.cols, [&](int64_t k, VF v) HWY_ATTR {
      hn::StoreU(hn::BitCast(d, Rounded(v)), d, out + k);
    });
    if (x.cols % 2 != 0) out[x.cols] = 0.0f;
  }
}

// The bits of 1.5 * 2^23 + kInt8Offset + n, with n = v * inverse rounded to the
// nearest integer, |n| <= 127: the sum has no bits for a fraction. Its lowest
// byte is n + kInt8Offset. (NearestInt also looks after what overflows.)
HWY_INLINE VU IntegerBits(VF v, VF inverse) {
  const VF shift = hn::Set(DF(), 0x1.8p23f + kInt8Offset);
  return hn::BitCast(DU(), hn::Add(hn::Mul(v, inverse), shift));
}

float QuantizeRow(const float* x, int64_t depth, uint8_t* to) {
  const DF d;
  const DI di;
  const hn::Rebind<uint8_t, DF> d8;
  VI max = hn::Zero(di);
  ForEachVector(x, depth, [&](int64_t, VF v) HWY_ATTR {
    max = hn::Max(max, MagnitudeBits(v));
  });
  const Int8Scale scale = ScaleOf(hn::GetLane(hn::MaxOfLanes(di, max)));
  const VF inverse = hn::Set(d, scale.inverse);
  if (scale.inverse == 0.0f) {
    std::memset(to, kInt8Offset, depth);
    return scale.scale;
  }
  ForEachVector(x, depth, [&](int64_t k, VF v) HWY_ATTR {
    const VU byte = hn::And(IntegerBits(v, inverse), hn::Set(DU(), 0xff));
    hn::StoreU(hn::U8FromU32(byte), d8, to + k);
  });
  return scale.scale;
}

void QuantizeRowsKernel(const Matrix<const float>& x, uint32_t* to,
                        float* scales) {
  for (int64_t r = 0; r < x.rows; ++r) {
    uint32_t* row = to + r * WordsOf(Precision::kInt8, x.cols);
    scales[r] = QuantizeRow(x.row(r), x.cols, reinterpret_cast<uint8_t*>(row));
  }
}

template <class V>
HWY_INLINE void StoreWords(V words, int64_t count, uint32_t* to) {
  StorePart(hn::BitCast(DF(), words), count, reinterpret_cast<float*>(to));
}

void RoundColumnsKernel(const Matrix<const float>& w, int64_t stride,
                        uint32_t* to) {
  for (int64_t k = 0; k < w.rows; k += 2, to += stride) {
    for (int64_t j = 0; j < w.cols; j += kVectorLanes) {
      const int64_t left = w.cols - j;
      VU word = hn::ShiftRight<16>(Rounded(LoadPart(w.row(k) + j, left, 0.0f)));
      if (k + 1 < w.rows) {
        word = hn::Or(word, Rounded(LoadPart(w.row(k + 1) + j, left, 0.0f)));
      }
      StoreWords(word, left, to + j);
    }
  }
}

// Columns [0, min(count, kVectorLanes)) of w.
void QuantizeColumnVector(const Matrix<const float>& w, int64_t count,
                          int64_t stride, uint32_t* to) {
  const DF d;
  const DI di;
  VI max = hn::Zero(di);
  for (int64_t k = 0; k < w.rows; ++k) {
    max = hn::Max(max, MagnitudeBits(LoadPart(w.row(k), count, 0.0f)));
  }
  HWY_ALIGN int32_t max_bits[kVectorLanes];
  HWY_ALIGN float scales[kVectorLanes], inverses[kVectorLanes];
  hn::Store(max, di, max_bits);
  for (int64_t j = 0; j < kVectorLanes; ++j) {
    const Int8Scale scale = ScaleOf(max_bits[j]);
    scales[j] = scale.scale;
    inverses[j] = scale.inverse;
  }
  const VF inverse = hn::Load(d, inverses);
  const auto used = hn::Gt(inverse, hn::Zero(d));
  const VI zero = hn::BitCast(di, IntegerBits(hn::Zero(d), inverse));
  VI sum = hn::Zero(di);
  for (int64_t k = 0; k < w.rows; k += 4, to += stride) {
    VI word = hn::Zero(di);
    for (int64_t i = 0; i < 4 && k + i < w.rows; ++i) {
      const VF v =
          hn::IfThenElseZero(used, LoadPart(w.row(k + i), count, 0.0f));
      const VI q = hn::Sub(hn::BitCast(di, IntegerBits(v, inverse)), zero);
      sum = hn::Add(sum, q);
      const VI byte = hn::And(q, hn::Set(di, 0xff));
      word = hn::Or(word, hn::ShiftLeftSame(byte, static_cast<int>(8 * i)));
    }
    StoreWords(word, count, to);
  }
  StoreWords(hn::Mul(sum, hn::Set(di, -kInt8Offset)), count, to);
  StoreWords(hn::Load(d, scales), count, to + stride);
}

void QuantizeColumnsKernel(const Matrix<const float>& w, int64_t stride,
                           uint32_t* to) {
  for (int64_t j = 0; j < w.cols; j += kVectorLanes) {
    QuantizeColumnVector(w.columns(j, w.cols - j), w.cols - j, stride, to + j);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(RoundRowsKernel);
HWY_EXPORT(RoundRowsWideKernel);
HWY_EXPORT(QuantizeRowsKernel);
HWY_EXPORT(RoundColumnsKernel);
HWY_EXPORT(QuantizeColumnsKernel);

void RoundRows(Matrix<const float> x, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(RoundRowsKernel)(x, to);
}

void RoundRowsWide(Matrix<const float> x, float* to) {
  HWY_DYNAMIC_DISPATCH(RoundRowsWideKernel)(x, to);
}

void QuantizeRows(Matrix<const float> x, uint32_t* to, float* scales) {
  HWY_DYNAMIC_DISPATCH(QuantizeRowsKernel)(x, to, scales);
}

void RoundColumns(Matrix<const float> w, int64_t stride, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(RoundColumnsKernel)(w, stride, to);
}

void QuantizeColumns(Matrix<const float> w, int64_t stride, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(QuantizeColumnsKernel)(w, stride, to);
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
