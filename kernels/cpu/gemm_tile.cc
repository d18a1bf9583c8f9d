#include "kernels/cpu/gemm_tile.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/aligned_allocator.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef RECURVE_KERNELS_CPU_GEMM_TILE_CC_ONCE_
#define RECURVE_KERNELS_CPU_GEMM_TILE_CC_ONCE_
namespace recurve::cpu {

// Rows of a transposed that are packed at once: four cache lines, so that
// packing reads memory in runs.
inline constexpr int64_t kPackedRows = 64;

// Up to this many rows, b is read where it lies: packing would cost more than
// it saves.
inline constexpr int64_t kMaxUnpackedRows = 32;

// What a thread packs into.
struct GemmScratch {
  float* a = nullptr;  // [kPackedRows / tile rows][kSumBlock][tile rows]
  float* b = nullptr;  // [panels][depth][panel width]
};

}  // namespace recurve::cpu
#endif  // RECURVE_KERNELS_CPU_GEMM_TILE_CC_ONCE_

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// A tile of c lives in registers: kTileRows x 3 vectors of sums, 3 vectors of
// b and one of a. AVX-512 has 32 registers, the others 16.
constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86 ? 8 : 4;
constexpr int64_t kLanes = hn::MaxLanes(D());
constexpr int64_t kPanel = 3 * kLanes;
static_assert(kColumnUnit % kPanel == 0 && kPackedRows % kTileRows == 0);

// One tile's factors and place. Row r of a at depth k is
// a[r * a_row + k * a_depth], b's row k is b + k * b_depth.
struct Tile {
  int64_t depth;
  const float* a;
  int64_t a_row;
  int64_t a_depth;
  const float* b;
  int64_t b_depth;
  float* c;
  int64_t c_stride;
  int64_t cols;  // at most kPanel
  bool accumulate;
};

// The caller's columns of one row of sums.
HWY_INLINE void StoreSums(const Tile& tile, int64_t row, const V* sums) {
  const D d;
  float* c = tile.c + row * tile.c_stride;
  if (tile.cols == kPanel) {
    for (int v = 0; v < 3; ++v) {
      float* to = c + v * kLanes;
      const V sum =
          tile.accumulate ? hn::Add(hn::LoadU(d, to), sums[v]) : sums[v];
      hn::StoreU(sum, d, to);
    }
    return;
  }
  HWY_ALIGN float part[kPanel];
  for (int v = 0; v < 3; ++v) hn::Store(sums[v], d, part + v * kLanes);
  for (int64_t j = 0; j < tile.cols; ++j) {
    c[j] = tile.accumulate ? c[j] + part[j] : part[j];
  }
}

template <int kRows>
void MultiplyTileOf(const Tile& tile) {
  const D d;
  V sums[kRows][3];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 3; ++v) sums[r][v] = hn::Zero(d);
    // c is needed when the sums are done; by then it has arrived.
    __builtin_prefetch(tile.c + r * tile.c_stride, /*rw=*/1);
    __builtin_prefetch(tile.c + r * tile.c_stride + kLanes, 1);
    __builtin_prefetch(tile.c + r * tile.c_stride + 2 * kLanes, 1);
  }
  const float* HWY_RESTRICT a = tile.a;
  const float* HWY_RESTRICT b = tile.b;
  const int64_t a_row = tile.a_row;
  for (int64_t k = 0; k < tile.depth; ++k) {
    const V b0 = hn::LoadU(d, b);
    const V b1 = hn::LoadU(d, b + kLanes);
    const V b2 = hn::LoadU(d, b + 2 * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r * a_row]);
      sums[r][0] = hn::MulAdd(x, b0, sums[r][0]);
      sums[r][1] = hn::MulAdd(x, b1, sums[r][1]);
      sums[r][2] = hn::MulAdd(x, b2, sums[r][2]);
    }
    a += tile.a_depth;
    b += tile.b_depth;
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) StoreSums(tile, r, sums[r]);
}

void MultiplyTile(int64_t rows, const Tile& tile) {
  static_assert(kTileRows <= 8);
  switch (rows) {
    case 1:
      return MultiplyTileOf<1>(tile);
    case 2:
      return MultiplyTileOf<2>(tile);
    case 3:
      return MultiplyTileOf<3>(tile);
    case 4:
      return MultiplyTileOf<4>(tile);
    case 5:
      return MultiplyTileOf<5>(tile);
    case 6:
      return MultiplyTileOf<6>(tile);
    case 7:
      return MultiplyTileOf<7>(tile);
    default:
      return MultiplyTileOf<8>(tile);
  }
}

// Copies `count` <= kPanel floats of each of b's `depth` rows; the rest of the
// panel is 0.
void PackRows(const GemmOperand& b, int64_t depth, int64_t count, float* to) {
  for (int64_t k = 0; k < depth; ++k, to += kPanel) {
    std::memcpy(to, b.at(k, 0), count * sizeof(float));
    std::fill(to + count, to + kPanel, 0.0f);
  }
}

// Columns [j, j + 4) of a panel from four stored rows of b's transpose.
void PackFourColumns(const GemmOperand& b, int64_t depth, int64_t j,
                     float* to) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; k + 4 <= depth; k += 4) {
    const auto r0 = hn::LoadU(d, b.at(k, j));
    const auto r1 = hn::LoadU(d, b.at(k, j + 1));
    const auto r2 = hn::LoadU(d, b.at(k, j + 2));
    const auto r3 = hn::LoadU(d, b.at(k, j + 3));
    const auto even_low = hn::InterleaveLower(d, r0, r2);
    const auto odd_low = hn::InterleaveLower(d, r1, r3);
    const auto even_high = hn::InterleaveUpper(d, r0, r2);
    const auto odd_high = hn::InterleaveUpper(d, r1, r3);
    float* out = to + k * kPanel + j;
    hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, out);
    hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, out + kPanel);
    hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d,
               out + 2 * kPanel);
    hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d,
               out + 3 * kPanel);
  }
#endif
  for (; k < depth; ++k) {
    for (int64_t i = j; i < j + 4; ++i) to[k * kPanel + i] = *b.at(k, i);
  }
}

void PackTransposed(const GemmOperand& b, int64_t depth, int64_t count,
                    float* to) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) PackFourColumns(b, depth, j, to);
  for (; j < kPanel; ++j) {
    for (int64_t k = 0; k < depth; ++k) {
      to[k * kPanel + j] = j < count ? *b.at(k, j) : 0.0f;
    }
  }
}

void PackPanel(const GemmOperand& b, int64_t depth, int64_t count, float* to) {
  if (b.transposed) {
    PackTransposed(b, depth, count, to);
  } else {
    PackRows(b, depth, count, to);
  }
}

// Packs `rows` <= kPackedRows rows of a, stored as columns, tile by tile.
void PackA(const GemmOperand& a, int64_t depth, int64_t rows, float* to) {
  for (int64_t k = 0; k < depth; ++k) {
    const float* from = a.at(0, k);
    int64_t row = 0;
    for (; row + kTileRows <= rows; row += kTileRows) {
      std::memcpy(to + row * depth + k * kTileRows, from + row,
                  kTileRows * sizeof(float));
    }
    std::copy(from + row, from + rows, to + row * depth + k * kTileRows);
  }
}

GemmOperand Offset(const GemmOperand& operand, int64_t row, int64_t col) {
  return {operand.at(row, col), operand.stride, operand.transposed};
}

// Where each panel of b is read: packed, or where it lies.
class Panels {
 public:
  Panels(const GemmBlock& block, float* scratch)
      : block_(block),
        scratch_(scratch),
        in_place_(!block.b.transposed && block.rows <= kMaxUnpackedRows) {
    for (int64_t j = 0; j < block.cols; j += kPanel) {
      if (InPlace(j)) continue;
      PackPanel(Offset(block.b, 0, j), block.depth, Width(j), Packed(j));
    }
  }

  int64_t Width(int64_t j) const { return std::min(kPanel, block_.cols - j); }
  void Set(int64_t j, Tile& tile) const {
    tile.cols = Width(j);
    tile.b = InPlace(j) ? block_.b.at(0, j) : Packed(j);
    tile.b_depth = InPlace(j) ? block_.b.stride : kPanel;
  }

 private:
  // A partial panel is packed: reading past its end is not allowed.
  bool InPlace(int64_t j) const { return in_place_ && Width(j) == kPanel; }
  float* Packed(int64_t j) const { return scratch_ + j * block_.depth; }

  const GemmBlock& block_;
  float* const scratch_;
  const bool in_place_;
};

void MultiplyRows(const GemmBlock& block, const Panels& panels, Tile tile,
                  int64_t first_row, int64_t rows) {
  tile.c = block.c + first_row * block.c_stride;
  for (int64_t j = 0; j < block.cols; j += kPanel, tile.c += kPanel) {
    panels.Set(j, tile);
    MultiplyTile(rows, tile);
  }
}

void MultiplyBlockKernel(const GemmBlock& block, const GemmScratch& scratch) {
  const Panels panels(block, scratch.b);
  Tile tile;
  tile.depth = block.depth;
  tile.a_row = block.a.transposed ? 1 : block.a.stride;
  tile.a_depth = block.a.transposed ? kTileRows : 1;
  tile.c_stride = block.c_stride;
  tile.accumulate = block.accumulate;
  for (int64_t row = 0; row < block.rows; row += kTileRows) {
    const int64_t within = row % kPackedRows;
    if (block.a.transposed && within == 0) {
      PackA(Offset(block.a, row, 0), block.depth,
            std::min(kPackedRows, block.rows - row), scratch.a);
    }
    tile.a = block.a.transposed ? scratch.a + within * block.depth
                                : block.a.at(row, 0);
    MultiplyRows(block, panels, tile, row,
                 std::min<int64_t>(kTileRows, block.rows - row));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(MultiplyBlockKernel);

void MultiplyBlock(const GemmBlock& block) {
  constexpr int64_t kFloatsA = kPackedRows * kSumBlock;
  // A block's last panel may reach past its columns, to the next unit.
  constexpr int64_t kFloatsB = kSumBlock * 7 * kColumnUnit;
  thread_local const hwy::AlignedFreeUniquePtr<float[]> scratch =
      hwy::AllocateAligned<float>(kFloatsA + kFloatsB);
  HWY_DYNAMIC_DISPATCH(MultiplyBlockKernel)
  (block, {scratch.get(), scratch.get() + kFloatsA});
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
