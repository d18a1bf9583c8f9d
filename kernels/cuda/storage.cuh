// The storage types in registers: conversions to and from float, and packs of
// neighbouring elements that one or few memory accesses move. Understood by
// nvcc and by the host compiler alike (portable.h).
#ifndef RECURVE_KERNELS_CUDA_STORAGE_CUH_
#define RECURVE_KERNELS_CUDA_STORAGE_CUH_

#include <cstdint>

#include "kernels/cuda/portable.h"
#include "kernels/storage.h"

#ifndef RECURVE_CUDA_EMULATION
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace recurve::cuda {

// --- portable conversions ---

// Round to nearest even; NaN becomes 0x7fff, as the hardware has it.
__device__ inline uint16_t RoundToBFloat16(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

__device__ inline uint16_t RoundToFloat16(float x) {
  const uint32_t bits = __float_as_uint(x);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  // From 65520 on, infinity.
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Subnormal: a unit is 2^-24, which is also the last bit of 0.5, so the sum
    // rounds to whole units.
    const float sum = __uint_as_float(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (__float_as_uint(sum) - 0x3f000000u));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  const uint32_t rebased = magnitude - 0x38000000u;
  return static_cast<uint16_t>(sign | (rebased + 0xfffu + odd) >> 13);
}

__device__ inline float ExpandFloat16(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude < 0x400u) {  // subnormal: units of 2^-24
    const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8f;
    return __uint_as_float(sign | __float_as_uint(value));
  }
  if (magnitude >= 0x7c00u) {
    return __uint_as_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  return __uint_as_float(sign | ((magnitude << 13) + 0x38000000u));
}

// --- the conversions of kernels ---

__device__ inline float ToFloat(float x) { return x; }

__device__ inline float ToFloat(BFloat16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}

__device__ inline float ToFloat(Float16 x) {
#ifdef RECURVE_CUDA_EMULATION
  return ExpandFloat16(x.bits);
#else
  return __half2float(__ushort_as_half(x.bits));
#endif
}

// Rounds to nearest even.
template <typename S>
__device__ inline S FromFloat(float x);

template <>
__device__ inline float FromFloat<float>(float x) {
  return x;
}

template <>
__device__ inline BFloat16 FromFloat<BFloat16>(float x) {
#ifdef RECURVE_CUDA_EMULATION
  return {RoundToBFloat16(x)};
#else
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#endif
}

template <>
__device__ inline Float16 FromFloat<Float16>(float x) {
#ifdef RECURVE_CUDA_EMULATION
  return {RoundToFloat16(x)};
#else
  return {__half_as_ushort(__float2half_rn(x))};
#endif
}

// An element as the low bits of a word, and back.
__device__ inline uint32_t ToWord(float x) { return __float_as_uint(x); }
template <typename S>
__device__ inline uint32_t ToWord(S x) {
  return x.bits;
}

template <typename S>
__device__ inline S FromWord(uint32_t word) {
  if constexpr (sizeof(S) == 4) {
    return __uint_as_float(word);
  } else {
    return S{static_cast<uint16_t>(word)};
  }
}

// --- packs ---

// Elements that one 16-byte access moves.
template <typename S>
inline constexpr int kWideVec = 16 / static_cast<int>(sizeof(S));

// kVec neighbouring elements in registers, as they are in memory: waiting for
// its turn, a pack of 16-bit elements takes half a register each. kVec is 1, or
// makes up whole 16-byte accesses at 16-byte boundaries.
template <typename S, int kVec>
class Pack {
 public:
  __device__ static Pack Load(const S* from) {
    Pack pack;
    if constexpr (kVec == 1) {
      pack.words_[0] = ToWord(*from);
    } else {
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i) {
        const uint4 part = reinterpret_cast<const uint4*>(from)[i];
        pack.words_[4 * i] = part.x;
        pack.words_[4 * i + 1] = part.y;
        pack.words_[4 * i + 2] = part.z;
        pack.words_[4 * i + 3] = part.w;
      }
    }
    return pack;
  }

  __device__ static Pack Zeros() {
    Pack pack;
#pragma unroll
    for (int i = 0; i < kWords; ++i) pack.words_[i] = 0;
    return pack;
  }

  __device__ void Store(S* to) const {
    if constexpr (kVec == 1) {
      *to = Element(0);
    } else {
#pragma unroll
      for (int i = 0; i < kWords / 4; ++i) {
        reinterpret_cast<uint4*>(to)[i] =
            make_uint4(words_[4 * i], words_[4 * i + 1], words_[4 * i + 2],
                       words_[4 * i + 3]);
      }
    }
  }

  __device__ float Get(int i) const { return ToFloat(Element(i)); }

  // Each element once, in ascending order.
  __device__ void Set(int i, float value) {
    const uint32_t bits = ToWord(FromFloat<S>(value));
    uint32_t& word = words_[i / kPerWord];
    word = i % kPerWord == 0 ? bits : word | bits << 16;
  }

 private:
  static constexpr int kPerWord = 4 / static_cast<int>(sizeof(S));
  static constexpr int kWords = (kVec + kPerWord - 1) / kPerWord;
  static_assert(kVec == 1 || kVec * sizeof(S) % 16 == 0);

  __device__ S Element(int i) const {
    const uint32_t word = words_[i / kPerWord];
    return FromWord<S>(i % kPerWord == 0 ? word : word >> 16);
  }

  uint32_t words_[kWords];
};

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_STORAGE_CUH_
