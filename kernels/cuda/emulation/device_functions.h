// What CUDA gives device code, on the host: qualifiers, barriers, warp
// operations, atomics, intrinsics. Global names, as in CUDA. Fast intrinsics
// have the host's accuracy, not the device's.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_DEVICE_FUNCTIONS_H_
#define RECURVE_KERNELS_CUDA_EMULATION_DEVICE_FUNCTIONS_H_

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/emulation/block.h"
#include "kernels/cuda/emulation/vector_types.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

// An array of the block. A function's own variable, whichever thread asks.
#define RECURVE_SHARED(type, name, count)                                   \
  static const char name##_key = 0;                                         \
  type(&name)[count] =                                                      \
      *static_cast<type(*)[count]>(::recurve::cuda::emulation::SharedArray( \
          &name##_key, sizeof(type) * (count)))

// A default argument that names the caller's line. (std::source_location is
// more than clang 14 has.)
#define RECURVE_CALLER \
  const char *file = __builtin_FILE(), int line = __builtin_LINE()

// --- barriers ---

inline void __syncthreads(RECURVE_CALLER) {
  recurve::cuda::emulation::BlockBarrier(false, {file, line});
}
inline int __syncthreads_count(int predicate, RECURVE_CALLER) {
  return recurve::cuda::emulation::BlockBarrier(predicate != 0, {file, line});
}
inline int __syncthreads_or(int predicate, RECURVE_CALLER) {
  return __syncthreads_count(predicate, file, line) != 0;
}
inline int __syncthreads_and(int predicate, RECURVE_CALLER) {
  return __syncthreads_count(predicate == 0, file, line) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, RECURVE_CALLER) {
  using namespace recurve::cuda::emulation;
  WarpExchange(WarpOperation::kBarrier, mask, 0, 0, {file, line});
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// --- warp votes and shuffles ---

inline unsigned __ballot_sync(unsigned mask, int predicate, RECURVE_CALLER) {
  using namespace recurve::cuda::emulation;
  return static_cast<unsigned>(WarpExchange(WarpOperation::kVote, mask,
                                            predicate != 0, 0, {file, line}));
}
inline int __any_sync(unsigned mask, int predicate, RECURVE_CALLER) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, RECURVE_CALLER) {
  return __ballot_sync(mask, predicate, file, line) == mask;
}

namespace recurve::cuda::emulation {

// T: a number of 32 or 64 bits.
template <typename T>
T Shuffle(unsigned mask, T value, int source, Place place) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  uint64_t bits = WarpExchange(WarpOperation::kShuffle, mask,
                               std::bit_cast<Bits>(value), source, place);
  return std::bit_cast<T>(static_cast<Bits>(bits));
}

}  // namespace recurve::cuda::emulation

// A lane whose source would lie outside its group of width lanes gets its own
// value.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              RECURVE_CALLER) {
  using namespace recurve::cuda::emulation;
  int first = LaneId() & -width;
  return Shuffle(mask, value, first + (source & (width - 1)), {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 RECURVE_CALLER) {
  using namespace recurve::cuda::emulation;
  int lane = LaneId();
  int source = lane - static_cast<int>(delta);
  if (source < (lane & -width)) source = lane;
  return Shuffle(mask, value, source, {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   RECURVE_CALLER) {
  using namespace recurve::cuda::emulation;
  int lane = LaneId();
  int source = lane + static_cast<int>(delta);
  if (source >= (lane & -width) + width) source = lane;
  return Shuffle(mask, value, source, {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  RECURVE_CALLER) {
  using namespace recurve::cuda::emulation;
  int lane = LaneId();
  int source = lane ^ lane_mask;
  if (source >= (lane & -width) + width) source = lane;
  return Shuffle(mask, value, source, {file, line});
}

#undef RECURVE_CALLER

// --- atomics: of integers alone, since sums of floats have a fixed order ---

namespace recurve::cuda::emulation {

template <typename T, typename Change>
T Exchange(T* address, Change change) {
  static_assert(std::is_integral_v<T> && sizeof(T) >= 4);
  T old = *address;
  *address = change(old);
  return old;
}

}  // namespace recurve::cuda::emulation

template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(
      address, [=](T old) { return static_cast<T>(old + value); });
}
template <typename T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(
      address, [=](T old) { return static_cast<T>(old - value); });
}
template <typename T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(
      address, [=](T old) { return old > value ? old : value; });
}
template <typename T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(
      address, [=](T old) { return old < value ? old : value; });
}
template <typename T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(
      address, [=](T old) { return static_cast<T>(old | value); });
}
template <typename T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(
      address, [=](T old) { return static_cast<T>(old & value); });
}
template <typename T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(address, [=](T) { return value; });
}
template <typename T>
T atomicCAS(T* address, std::type_identity_t<T> expected,
            std::type_identity_t<T> value) {
  return recurve::cuda::emulation::Exchange(
      address, [=](T old) { return old == expected ? value : old; });
}

// --- intrinsics ---

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
inline int __mulhi(int a, int b) {
  return static_cast<int>((static_cast<int64_t>(a) * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a,
                                     unsigned long long b) {
  return static_cast<unsigned long long>(
      (static_cast<unsigned __int128>(a) * b) >> 64);
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __saturatef(float x) {
  return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}
// Macros: the C library declares these names and does not export them.
#define __expf(x) expf(x)
#define __logf(x) logf(x)

// Cached and streaming accesses.
template <typename T>
T __ldg(const T* p) {
  return *p;
}
template <typename T>
T __ldcs(const T* p) {
  return *p;
}
template <typename T>
T __ldcg(const T* p) {
  return *p;
}
template <typename T>
void __stcs(T* p, std::type_identity_t<T> value) {
  *p = value;
}
template <typename T>
void __stcg(T* p, std::type_identity_t<T> value) {
  *p = value;
}

#define RECURVE_MIN_MAX(type)                                         \
  inline constexpr type min(type a, type b) { return b < a ? b : a; } \
  inline constexpr type max(type a, type b) { return a < b ? b : a; }
RECURVE_MIN_MAX(int)
RECURVE_MIN_MAX(unsigned)
RECURVE_MIN_MAX(long)
RECURVE_MIN_MAX(unsigned long)
RECURVE_MIN_MAX(long long)
RECURVE_MIN_MAX(unsigned long long)
#undef RECURVE_MIN_MAX
// A number wins over NaN.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

#endif  // RECURVE_KERNELS_CUDA_EMULATION_DEVICE_FUNCTIONS_H_
