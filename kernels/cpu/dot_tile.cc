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
#endif

#ifndef RECURVE_KERNELS_CPU_DOT_TILE_CC_ONCE_
#define RECURVE_KERNELS_CPU_DOT_TILE_CC_ONCE_
namespace recurve::cpu {

// Instructions that this machine has beside those that Highway knows of.
struct DotInstructions {
  bool avx512_bf16 = false;
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
  const uint32_t* x;  // row r at x + r * words
  const float* row_scales;
  const uint32_t* w;  // word k at w + k * kColumnUnit
  const float* bias;
  float* u;
  int64_t u_stride;
  int64_t cols;  // at most kPanel
};

// --- Kinds of sums: where they start, how a word is added, what they mean ---

struct Bfloat16Sum {
  using Sum = V;
  static HWY_INLINE V Start(const Tile&, int) { return hn::Zero(D()); }
  static HWY_INLINE V Value(V sum, const Tile&, int64_t, int) { return sum; }
};

struct Int8Sum {
  using Sum = VI;
  static HWY_INLINE VI Start(const Tile& tile, int v) {
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

struct PortableBfloat16 : Bfloat16Sum {
  static HWY_INLINE void Add(VU w, VU x, V& sum) {
    sum = hn::MulAdd(Second(x), Second(w), sum);
    sum = hn::MulAdd(First(x), First(w), sum);
  }

 private:
  static HWY_INLINE V First(VU word) {
    return hn::BitCast(D(), hn::ShiftLeft<16>(word));
  }
  static HWY_INLINE V Second(VU word) {
    return hn::BitCast(D(), hn::And(word, hn::Set(DU(), 0xffff0000)));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
// Bytes are widened to int16 first: products of bytes, added in pairs, do not
// fit into the int16 that older instructions have for them.
struct PortableInt8 : Int8Sum {
  static HWY_INLINE void Add(VU w, VU x, VI& sum) {
    const D16 d;
    const VU low = hn::Set(DU(), 0x00ff00ff);
    const V16 pairs = hn::BitCast(d, w);
    AddPairs(hn::ShiftRight<8>(hn::ShiftLeft<8>(pairs)),
             hn::BitCast(d, hn::And(x, low)), sum);
    AddPairs(hn::ShiftRight<8>(pairs),
             hn::BitCast(d, hn::And(hn::ShiftRight<8>(x), low)), sum);
  }

 private:
  using D16 = hn::Repartition<int16_t, DI>;
  using V16 = hn::Vec<D16>;

  // Adds both products of each word's int16s. Elsewhere the second one would
  // go to another sum.
  static HWY_INLINE void AddPairs(V16 a, V16 b, VI& sum) {
    VI other = hn::Zero(DI());
    sum = hn::ReorderWidenMulAccumulate(DI(), a, b, sum, other);
  }
};
#else
struct PortableInt8 : Int8Sum {
  static HWY_INLINE void Add(VU w, VU x, VI& sum) {
    AddByte<0>(w, x, sum);
    AddByte<8>(w, x, sum);
    AddByte<16>(w, x, sum);
    AddByte<24>(w, x, sum);
  }

 private:
  template <int kShift>
  static HWY_INLINE void AddByte(VU w, VU x, VI& sum) {
    const DI d;
    const VI weight =
        hn::ShiftRight<24>(hn::ShiftLeft<24 - kShift>(hn::BitCast(d, w)));
    const VU term = hn::And(hn::ShiftRight<kShift>(x), hn::Set(DU(), 0xff));
    sum = hn::Add(sum, hn::Mul(weight, hn::BitCast(d, term)));
  }
};
#endif

// Assembly, not intrinsics: these would need other target attributes than those
// that Highway compiles this namespace with.
#if HWY_TARGET == HWY_AVX3
struct Avx512Bfloat16 : Bfloat16Sum {
  static HWY_INLINE void Add(VU w, VU x, V& sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
  }
};

struct Avx512Vnni : Int8Sum {
  static HWY_INLINE void Add(VU w, VU x, VI& sum) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "v"(w.raw));
  }
};
#endif

#if HWY_TARGET == HWY_AVX2
struct AvxVnni : Int8Sum {
  static HWY_INLINE void Add(VU w, VU x, VI& sum) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(x.raw), "x"(w.raw));
  }
};
#endif

// --- The tile ---

// The caller's columns of one row.
template <class Kind>
HWY_INLINE void Store(const Tile& tile, int64_t row,
                      const typename Kind::Sum* sums) {
  const D d;
  float* u = tile.u + row * tile.u_stride;
  if (tile.cols == kPanel) {
    for (int v = 0; v < 3; ++v) {
      V value = Kind::Value(sums[v], tile, row, v);
      if (tile.bias != nullptr) {
        value = hn::Add(hn::LoadU(d, tile.bias + v * kLanes), value);
      }
      hn::StoreU(value, d, u + v * kLanes);
    }
    return;
  }
  HWY_ALIGN float part[kPanel];
  for (int v = 0; v < 3; ++v) {
    hn::Store(Kind::Value(sums[v], tile, row, v), d, part + v * kLanes);
  }
  for (int64_t j = 0; j < tile.cols; ++j) {
    u[j] = tile.bias != nullptr ? tile.bias[j] + part[j] : part[j];
  }
}

template <class Kind, int kRows>
void MultiplyTileOf(const Tile& tile) {
  const DU d;
  typename Kind::Sum sums[kRows][3];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 3; ++v) sums[r][v] = Kind::Start(tile, v);
  }
  const uint32_t* HWY_RESTRICT x = tile.x;
  const uint32_t* HWY_RESTRICT w = tile.w;
  const int64_t words = tile.words;
  for (int64_t k = 0; k < words; ++k, ++x, w += kColumnUnit) {
    const VU w0 = hn::LoadU(d, w);
    const VU w1 = hn::LoadU(d, w + kLanes);
    const VU w2 = hn::LoadU(d, w + 2 * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const VU terms = hn::Set(d, x[r * words]);
      Kind::Add(w0, terms, sums[r][0]);
      Kind::Add(w1, terms, sums[r][1]);
      Kind::Add(w2, terms, sums[r][2]);
    }
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
  for (int64_t row = 0; row < block.rows; row += kTileRows) {
    tile.x = block.x + row * block.words;
    if (block.row_scales != nullptr) tile.row_scales = block.row_scales + row;
    for (int64_t j = 0; j < block.cols; j += kPanel) {
      tile.w = block.w + j / kColumnUnit * panel_stride + j % kColumnUnit;
      if (block.bias != nullptr) tile.bias = block.bias + j;
      tile.u = block.u + row * block.u_stride + j;
      tile.cols = std::min(kPanel, block.cols - j);
      MultiplyTile<Kind>(std::min<int64_t>(kTileRows, block.rows - row), tile);
    }
  }
}

void MultiplyBfloat16Kernel(const DotBlock& block,
                            [[maybe_unused]] DotInstructions has) {
#if HWY_TARGET == HWY_AVX3
  if (has.avx512_bf16) return MultiplyBlockOf<Avx512Bfloat16>(block, 0);
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

// Highway has made sure that the system saves the registers.
DotInstructions Detect() {
  DotInstructions has;
#if HWY_ARCH_X86
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    has.avx512_vnni = ecx >> 11 & 1;
  }
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) {
    has.avx_vnni = eax >> 4 & 1;
    has.avx512_bf16 = eax >> 5 & 1;
  }
#endif
  return has;
}

DotInstructions InstructionsFor(DotProducts how) {
  static const DotInstructions detected = Detect();
  return how == DotProducts::kFastest ? detected : DotInstructions();
}

}  // namespace

HWY_EXPORT(MultiplyBfloat16Kernel);
HWY_EXPORT(MultiplyInt8Kernel);

void MultiplyBfloat16(const DotBlock& block, DotProducts how) {
  HWY_DYNAMIC_DISPATCH(MultiplyBfloat16Kernel)(block, InstructionsFor(how));
}

void MultiplyInt8(const DotBlock& block, DotProducts how) {
  HWY_DYNAMIC_DISPATCH(MultiplyInt8Kernel)(block, InstructionsFor(how));
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
