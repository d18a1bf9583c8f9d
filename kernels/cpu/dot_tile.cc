#include "kernels/cpu/dot_tile.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/narrow.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dot_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#include <xmmintrin.h>
#endif

#ifndef RECURVE_KERNELS_CPU_DOT_TILE_CC_ONCE_
#define RECURVE_KERNELS_CPU_DOT_TILE_CC_ONCE_
namespace recurve::cpu {

// Instructions that this machine has beside those that Highway knows of.
struct DotInstructions {
  bool avx512_bf16 = false;
  // Intel's take one VDPBF16PS in two cycles, but two fused multiply-adds in
  // each: widening is faster there, unless memory is what they wait for.
  bool fast_bf16 = false;
  bool avx512_vnni = false;
  bool avx_vnni = false;
};

}  // namespace recurve::cpu
#endif  // RECURVE_KERNELS_CPU_DOT_TILE_CC_ONCE_

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;
using DU = hn::RebindToUnsigned<D>;
using VU = hn::Vec<DU>;

// A tile of u lives in registers, as in gemm_tile.cc.
constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 ? 8 : 4;
constexpr int64_t kLanes = hn::MaxLanes(D());
constexpr int64_t kPanel = 3 * kLanes;
static_assert(kColumnUnit % kPanel == 0);

struct Tile {
  int64_t words;
  const uint32_t* x;
  const float* row_scales;
  const uint32_t* w;  // word k at w + k * kColumnUnit
  float* u;
  int64_t u_stride;
  const float* addend;
  int64_t addend_stride;
  int64_t cols;    // at most kPanel
  bool continues;  // sums start from u
};

// --- Kinds of sums: where they start, how a word is added, what they mean ---

struct Bfloat16Sum {
  using Sum = V;
  static HWY_INLINE V Start(const Tile& tile, int64_t row, int v) {
    if (!tile.continues) return hn::Zero(D());
    const float* u = tile.u + row * tile.u_stride + v * kLanes;
    const int64_t cols = tile.cols - v * kLanes;
    if (cols >= kLanes) return hn::LoadU(D(), u);
    HWY_ALIGN float part[kLanes] = {};
    if (cols > 0) std::copy_n(u, cols, part);
    return hn::Load(D(), part);
  }
  static HWY_INLINE V Value(V sum, const Tile&, int64_t, int) { return sum; }
};

struct Int8Sum {
  using Sum = VI;
  static HWY_INLINE VI Start(const Tile& tile, int64_t, int v) {
    return hn::LoadU(DI(), reinterpret_cast<const int32_t*>(Footer(tile, v)));
  }
  static HWY_INLINE V Value(VI sum, const Tile& tile, int64_t row, int v) {
    const D d;
    const uint32_t* scales = Footer(tile, v) + kColumnUnit;
    const V by_row =
        hn::Mul(hn::ConvertTo(d, sum), hn::Set(d, tile.row_scales[row]));
    return hn::Mul(by_row,
                   hn::LoadU(d, reinterpret_cast<const float*>(scales)));
  }

 private:
  static HWY_INLINE const uint32_t* Footer(const Tile& tile, int v) {
    return tile.w + tile.words * kColumnUnit + v * kLanes;
  }
};

// A word is added in parts: Weights<part> of each of three vectors of words,
// Terms<part> of each row, Add for each pair of these. A row takes kRowWords
// words of x for one of w.

struct PortableBfloat16 : Bfloat16Sum {
  static constexpr int kParts = 2;
  static constexpr int kRowWords = 2;  // floats

  template <int kPart>
  static HWY_INLINE V Weights(VU w) {
    const DU d;
    const VU second = hn::And(w, hn::Set(d, 0xffff0000));
    return hn::BitCast(D(), kPart == 0 ? second : hn::ShiftLeft<16>(w));
  }
  template <int kPart>
  static HWY_INLINE V Terms(const uint32_t* x) {
    return hn::Set(D(), reinterpret_cast<const float*>(x)[1 - kPart]);
  }
  static HWY_INLINE V Add(V w, V x, V sum) { return hn::MulAdd(x, w, sum); }
};

#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
// Bytes are widened to int16 first: products of bytes, added in pairs, do not
// fit into the int16 that older instructions have for them.
struct PortableInt8 : Int8Sum {
  using D16 = hn::Repartition<int16_t, DI>;
  using V16 = hn::Vec<D16>;
  static constexpr int kParts = 2;
  static constexpr int kRowWords = 1;

  template <int kPart>
  static HWY_INLINE V16 Weights(VU w) {
    const V16 pairs = hn::BitCast(D16(), w);
    return hn::ShiftRight<8>(kPart == 0 ? hn::ShiftLeft<8>(pairs) : pairs);
  }
  template <int kPart>
  static HWY_INLINE V16 Terms(const uint32_t* x) {
    return hn::BitCast(D16(), hn::Set(DU(), *x >> (8 * kPart) & 0x00ff00ff));
  }
  // Adds both products of each word's int16s. On other machines the second one
  // would go to another sum.
  static HWY_INLINE VI Add(V16 w, V16 x, VI sum) {
    VI other = hn::Zero(DI());
    return hn::ReorderWidenMulAccumulate(DI(), w, x, sum, other);
  }
};
#else
struct PortableInt8 : Int8Sum {
  static constexpr int kParts = 4;
  static constexpr int kRowWords = 1;

  template <int kPart>
  static HWY_INLINE VI Weights(VU w) {
    const VI signs = hn::BitCast(DI(), w);
    return hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kPart>(signs));
  }
  template <int kPart>
  static HWY_INLINE VI Terms(const uint32_t* x) {
    return hn::Set(DI(), static_cast<int32_t>(*x >> (8 * kPart) & 0xff));
  }
  static HWY_INLINE VI Add(VI w, VI x, VI sum) {
    return hn::Add(sum, hn::Mul(w, x));
  }
};
#endif

// Whole words, by one instruction.
struct WordTerms {
  static constexpr int kParts = 1;
  static constexpr int kRowWords = 1;

  template <int kPart>
  static HWY_INLINE VU Weights(VU w) {
    return w;
  }
  template <int kPart>
  static HWY_INLINE VU Terms(const uint32_t* x) {
    return hn::Set(DU(), *x);
  }
};

// Assembly, not intrinsics: these would need other target attributes than those
// that Highway compiles this namespace with.
#if HWY_TARGET == HWY_AVX3
struct Avx512Bfloat16 : Bfloat16Sum, WordTerms {
  static HWY_INLINE V Add(VU w, VU x, V sum) {
    auto raw = sum.raw;
    asm("vdpbf16ps %2, %1, %0" : "+v"(raw) : "v"(x.raw), "v"(w.raw));
    return V{raw};
  }
};

struct Avx512Vnni : Int8Sum, WordTerms {
  static HWY_INLINE VI Add(VU w, VU x, VI sum) {
    auto raw = sum.raw;
    asm("vpdpbusd %2, %1, %0" : "+v"(raw) : "v"(x.raw), "v"(w.raw));
    return VI{raw};
  }
};
#elif HWY_TARGET == HWY_AVX2
struct AvxVnni : Int8Sum, WordTerms {
  static HWY_INLINE VI Add(VU w, VU x, VI sum) {
    auto raw = sum.raw;
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(raw) : "x"(x.raw), "x"(w.raw));
    return VI{raw};
  }
};
#endif

// --- The tile ---

// The caller's columns of one row.
template <class Kind>
HWY_INLINE void Store(const Tile& tile, int64_t row,
                      const typename Kind::Sum* sums) {
  const D d;
  const bool adds = tile.addend != nullptr;
  const float* addend = tile.addend + (adds ? row * tile.addend_stride : 0);
  float* u = tile.u + row * tile.u_stride;
  if (tile.cols == kPanel) {
    for (int v = 0; v < 3; ++v) {
      V value = Kind::Value(sums[v], tile, row, v);
      if (adds) value = hn::Add(hn::LoadU(d, addend + v * kLanes), value);
      hn::StoreU(value, d, u + v * kLanes);
    }
    return;
  }
  HWY_ALIGN float part[kPanel];
  for (int v = 0; v < 3; ++v) {
    hn::Store(Kind::Value(sums[v], tile, row, v), d, part + v * kLanes);
  }
  for (int64_t j = 0; j < tile.cols; ++j) {
    u[j] = adds ? addend[j] + part[j] : part[j];
  }
}

// Adds a part of one word to all of a tile's sums.
template <class Kind, int kPart, int kRows>
HWY_INLINE void AddPart(const uint32_t* HWY_RESTRICT x, int64_t x_stride,
                        const uint32_t* HWY_RESTRICT w,
                        typename Kind::Sum (&sums)[kRows][3]) {
  const DU d;
  const auto w0 = Kind::template Weights<kPart>(hn::LoadU(d, w));
  const auto w1 = Kind::template Weights<kPart>(hn::LoadU(d, w + kLanes));
  const auto w2 = Kind::template Weights<kPart>(hn::LoadU(d, w + 2 * kLanes));
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    const auto terms = Kind::template Terms<kPart>(x + r * x_stride);
    sums[r][0] = Kind::Add(w0, terms, sums[r][0]);
    sums[r][1] = Kind::Add(w1, terms, sums[r][1]);
    sums[r][2] = Kind::Add(w2, terms, sums[r][2]);
  }
}

template <class Kind, int kRows>
void MultiplyTileOf(const Tile& tile) {
  typename Kind::Sum sums[kRows][3];
  // Unrolled everywhere, or the sums go to memory and back at each word.
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(3)
    for (int v = 0; v < 3; ++v) sums[r][v] = Kind::Start(tile, r, v);
  }
  const int64_t x_stride = tile.words * Kind::kRowWords;
  const uint32_t* x = tile.x;
  const uint32_t* w = tile.w;
  for (int64_t k = 0; k < tile.words; ++k) {
    AddPart<Kind, 0>(x, x_stride, w, sums);
    if constexpr (Kind::kParts > 1) AddPart<Kind, 1>(x, x_stride, w, sums);
    if constexpr (Kind::kParts > 2) {
      AddPart<Kind, 2>(x, x_stride, w, sums);
      AddPart<Kind, 3>(x, x_stride, w, sums);
    }
    x += Kind::kRowWords;
    w += kColumnUnit;
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) Store<Kind>(tile, r, sums[r]);
}

template <class Kind>
void MultiplyTile(int64_t rows, const Tile& tile) {
  switch (rows) {
    case 1:
      return MultiplyTileOf<Kind, 1>(tile);
    case 2:
      return MultiplyTileOf<Kind, 2>(tile);
    case 3:
      return MultiplyTileOf<Kind, 3>(tile);
    case 4:
      return MultiplyTileOf<Kind, 4>(tile);
  }
  if constexpr (kTileRows == 8) {
    switch (rows) {
      case 5:
        return MultiplyTileOf<Kind, 5>(tile);
      case 6:
        return MultiplyTileOf<Kind, 6>(tile);
      case 7:
        return MultiplyTileOf<Kind, 7>(tile);
      case 8:
        return MultiplyTileOf<Kind, 8>(tile);
    }
  }
}

template <class Kind>
void MultiplyBlockOf(const DotBlock& block, int64_t footer_rows) {
  const int64_t panel_stride = (block.words + footer_rows) * kColumnUnit;
  Tile tile = {};
  tile.words = block.words;
  tile.u_stride = block.u_stride;
  tile.addend_stride = block.addend_stride;
  tile.continues = block.continues;
  for (int64_t row = 0; row < block.rows; row += kTileRows) {
    tile.x = block.x + row * block.words * Kind::kRowWords;
    if (block.row_scales != nullptr) tile.row_scales = block.row_scales + row;
    for (int64_t j = 0; j < block.cols; j += kPanel) {
      tile.w = block.w + j / kColumnUnit * panel_stride + j % kColumnUnit;
      if (block.addend != nullptr) {
        tile.addend = block.addend + row * block.addend_stride + j;
      }
      tile.u = block.u + row * block.u_stride + j;
      tile.cols = std::min(kPanel, block.cols - j);
      MultiplyTile<Kind>(std::min<int64_t>(kTileRows, block.rows - row), tile);
    }
  }
}

bool HasBfloat16Pairs(DotInstructions has) {
  return HWY_TARGET == HWY_AVX3 && has.avx512_bf16;
}

void MultiplyBfloat16Kernel(const DotBlock& block,
                            [[maybe_unused]] bool pairs) {
#if HWY_TARGET == HWY_AVX3
  if (pairs) return MultiplyBlockOf<Avx512Bfloat16>(block, 0);
#endif
  MultiplyBlockOf<PortableBfloat16>(block, 0);
}

void MultiplyInt8Kernel(const DotBlock& block,
                        [[maybe_unused]] DotInstructions has) {
#if HWY_TARGET == HWY_AVX3
  if (has.avx512_vnni) {
    return MultiplyBlockOf<Avx512Vnni>(block, kInt8FooterRows);
  }
#elif HWY_TARGET == HWY_AVX2
  if (has.avx_vnni) return MultiplyBlockOf<AvxVnni>(block, kInt8FooterRows);
#endif
  MultiplyBlockOf<PortableInt8>(block, kInt8FooterRows);
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {
namespace {

#if HWY_ARCH_X86
bool IsIntel() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) && ebx == signature_INTEL_ebx;
}

// Highway has made sure that the system saves the registers.
DotInstructions Detect() {
  DotInstructions has;
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    has.avx512_vnni = ecx >> 11 & 1;
  }
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
    has.avx_vnni = eax >> 4 & 1;
    has.avx512_bf16 = eax >> 5 & 1;
    has.fast_bf16 = has.avx512_bf16 && !IsIntel();
  }
  return has;
}
#else
DotInstructions Detect() { return {}; }
#endif

// Within its scope subnormal floats are 0, as VDPBF16PS always takes them.
class FlushSubnormals {
#if HWY_ARCH_X86
 public:
  FlushSubnormals() { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushSubnormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  const unsigned before_ = _mm_getcsr();
#endif
};

const DotInstructions& Detected() {
  static const DotInstructions detected = Detect();
  return detected;
}

}  // namespace

HWY_EXPORT(HasBfloat16Pairs);
HWY_EXPORT(MultiplyBfloat16Kernel);
HWY_EXPORT(MultiplyInt8Kernel);

bool TakesBfloat16Pairs(int64_t rows, DotProducts how) {
  constexpr int64_t kFewRows = 2;
  const DotInstructions& has = Detected();
  if (how == DotProducts::kPortable) return false;
  if (!HWY_DYNAMIC_DISPATCH(HasBfloat16Pairs)(has)) return false;
  return how == DotProducts::kNative || has.fast_bf16 || rows <= kFewRows;
}

void MultiplyBfloat16(const DotBlock& block, bool pairs) {
  const FlushSubnormals flush;
  HWY_DYNAMIC_DISPATCH(MultiplyBfloat16Kernel)(block, pairs);
}

void MultiplyInt8(const DotBlock& block, DotProducts how) {
  const bool portable = how == DotProducts::kPortable;
  HWY_DYNAMIC_DISPATCH(MultiplyInt8Kernel)
  (block, portable ? DotInstructions() : Detected());
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
