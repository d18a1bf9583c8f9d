#include "kernels/cpu/gemm_tile.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "hwy/aligned_allocator.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/transpose-inl.h"

#ifndef RECURVE_KERNELS_CPU_GEMM_TILE_CC_ONCE_
#define RECURVE_KERNELS_CPU_GEMM_TILE_CC_ONCE_
namespace recurve::cpu {

// Rows of a transposed that are packed in one go: four cache lines, so that
// memory is read in runs, but no more places are written than a set of the
// first-level cache has lines.
inline constexpr int64_t kStripRows = 64;

// Up to this many rows, b is read where it lies: packing would cost more than
// it saves.
inline constexpr int64_t kMaxUnpackedRows = 32;

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
static_assert(kColumnUnit % kPanel == 0 && kStripRows % kTileRows == 0);

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
  int64_t cols;    // at most kPanel
  bool continues;  // sums start from c, not from 0
  // What sums are added to, by row, if not null.
  const float* addend;
  int64_t addend_stride;
};

// What one row of sums starts from.
HWY_INLINE void LoadSums(const Tile& tile, int64_t row, V* sums) {
  const float* c = tile.c + row * tile.c_stride;
  HWY_ALIGN float part[kPanel];
  if (tile.cols < kPanel) {
    std::fill(std::copy_n(c, tile.cols, part), part + kPanel, 0.0f);
    c = part;
  }
  for (int v = 0; v < 3; ++v) sums[v] = hn::LoadU(D(), c + v * kLanes);
}

// The caller's columns of one row of sums.
HWY_INLINE void StoreSums(const Tile& tile, int64_t row, const V* sums) {
  const D d;
  const bool adds = tile.addend != nullptr;
  const float* addend = tile.addend + (adds ? row * tile.addend_stride : 0);
  float* c = tile.c + row * tile.c_stride;
  if (tile.cols == kPanel) {
    for (int v = 0; v < 3; ++v) {
      const V sum =
          adds ? hn::Add(hn::LoadU(d, addend + v * kLanes), sums[v]) : sums[v];
      hn::StoreU(sum, d, c + v * kLanes);
    }
    return;
  }
  HWY_ALIGN float part[kPanel];
  for (int v = 0; v < 3; ++v) hn::Store(sums[v], d, part + v * kLanes);
  for (int64_t j = 0; j < tile.cols; ++j) {
    c[j] = adds ? addend[j] + part[j] : part[j];
  }
}

template <int kRows>
void MultiplyTileOf(const Tile& tile) {
  const D d;
  V sums[kRows][3];
  // c is needed when the sums are done, or the next tile's when they start; by
  // then it has arrived.
  const float* const needed = tile.c + (tile.continues ? kPanel : 0);
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < 3; ++v) sums[r][v] = hn::Zero(d);
    __builtin_prefetch(needed + r * tile.c_stride, /*rw=*/1);
    __builtin_prefetch(needed + r * tile.c_stride + kLanes, 1);
    __builtin_prefetch(needed + r * tile.c_stride + 2 * kLanes, 1);
  }
  if (tile.continues) {
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) LoadSums(tile, r, sums[r]);
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

GemmOperand Offset(const GemmOperand& operand, int64_t row, int64_t col) {
  return {operand.at(row, col), operand.stride, operand.transposed};
}

// Row by row, so that memory is read in runs; the rest of the last panel is 0.
void PackRows(const GemmOperand& b, int64_t depth, int64_t cols, float* to) {
  const D d;
  const int64_t whole = cols / kPanel * kPanel;
  for (int64_t k = 0; k < depth; ++k, to += kPanel) {
    const float* const from = b.at(k, 0);
    for (int64_t j = 0; j < whole; j += kPanel) {
      for (int64_t v = 0; v < kPanel; v += kLanes) {
        hn::StoreU(hn::LoadU(d, from + j + v), d, to + j * depth + v);
      }
    }
    if (whole == cols) continue;
    float* const last = to + whole * depth;
    std::fill(std::copy(from + whole, from + cols, last), last + kPanel, 0.0f);
  }
}

// Columns [j, j + 4) of a panel from four stored rows of b's transpose.
void PackFourColumns(const GemmOperand& b, int64_t depth, int64_t j,
                     float* to) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; k + 4 <= depth; k += 4) {
    TransposeFour(b.at(k, j), b.stride, [&](int64_t r, auto column) {
      hn::StoreU(column, hn::FixedTag<float, 4>(), to + (k + r) * kPanel + j);
    });
  }
#endif
  for (; k < depth; ++k) {
    for (int64_t i = j; i < j + 4; ++i) to[k * kPanel + i] = *b.at(k, i);
  }
}

// One panel of `count` <= kPanel columns, the rest 0.
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

void PackPanels(const GemmOperand& b, int64_t depth, int64_t cols, float* to) {
  if (!b.transposed) return PackRows(b, depth, cols, to);
  for (int64_t j = 0; j < cols; j += kPanel) {
    PackTransposed(Offset(b, 0, j), depth, std::min(kPanel, cols - j),
                   to + j * depth);
  }
}

// Packs `rows` <= kStripRows rows of a, stored as columns, tile by tile.
void PackStrip(const GemmOperand& a, int64_t depth, int64_t rows, float* to) {
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

void PackA(const GemmBlock& block, float* to) {
  for (int64_t row = 0; row < block.rows; row += kStripRows) {
    PackStrip(Offset(block.a, row, 0), block.depth,
              std::min(kStripRows, block.rows - row), to + row * block.depth);
  }
}

// Where the panels of b are read that belong to columns [begin, end) of a
// block: packed, or in place.
class Panels {
 public:
  Panels(const GemmBlock& block, int64_t begin, int64_t end, float* scratch)
      : block_(block),
        begin_(begin),
        end_(end),
        scratch_(scratch),
        in_place_(!block.b.transposed && block.rows <= kMaxUnpackedRows) {
    // A partial panel is packed: reading past its end is not allowed.
    const int64_t first = in_place_ ? end - (end - begin) % kPanel : begin;
    PackPanels(Offset(block.b, 0, first), block.depth, end - first,
               Packed(first));
  }

  // c (+)= a b for the tile's rows and these columns; tile has the rest set.
  void Multiply(int64_t rows, Tile tile) const {
    float* const c = tile.c;
    for (int64_t j = begin_; j < end_; j += kPanel) {
      tile.c = c + j;
      if (block_.destination == Destination::kAccumulate) tile.addend = tile.c;
      tile.cols = Width(j);
      tile.b = InPlace(j) ? block_.b.at(0, j) : Packed(j);
      tile.b_depth = InPlace(j) ? block_.b.stride : kPanel;
      MultiplyTile(rows, tile);
    }
  }

 private:
  int64_t Width(int64_t j) const { return std::min(kPanel, end_ - j); }
  bool InPlace(int64_t j) const { return in_place_ && Width(j) == kPanel; }
  float* Packed(int64_t j) const {
    return scratch_ + (j - begin_) * block_.depth;
  }

  const GemmBlock& block_;
  const int64_t begin_;
  const int64_t end_;
  float* const scratch_;
  const bool in_place_;
};

void MultiplyColumns(const GemmBlock& block, const Panels& panels,
                     const float* packed_a) {
  const bool transposed = block.a.transposed;
  Tile tile = {};
  tile.depth = block.depth;
  tile.a_row = transposed ? 1 : block.a.stride;
  tile.a_depth = transposed ? kTileRows : 1;
  tile.c_stride = block.c_stride;
  tile.addend_stride = block.c_stride;
  tile.continues = block.destination == Destination::kContinue;
  for (int64_t row = 0; row < block.rows; row += kTileRows) {
    tile.a = transposed ? packed_a + row * block.depth : block.a.at(row, 0);
    tile.c = block.c + row * block.c_stride;
    panels.Multiply(std::min<int64_t>(kTileRows, block.rows - row), tile);
  }
}

// a is packed as [tiles][depth][tile rows], b as [panels][depth][panel width].
void MultiplyBlockKernel(const GemmBlock& block, const GemmScratch& scratch) {
  if (block.a.transposed) PackA(block, scratch.a);
  const int64_t cols = ColumnsPackedTogether(block.depth, block.a.transposed);
  for (int64_t begin = 0; begin < block.cols; begin += cols) {
    const Panels panels(block, begin, std::min(begin + cols, block.cols),
                        scratch.b);
    MultiplyColumns(block, panels, scratch.a);
  }
}

void MultiplyPanelsKernel(const PanelBlock& block) {
  Tile tile = {};
  tile.depth = block.depth;
  tile.a_row = block.a_stride;
  tile.a_depth = 1;
  tile.b_depth = kColumnUnit;
  tile.c_stride = block.c_stride;
  tile.addend_stride = block.addend_stride;
  for (int64_t row = 0; row < block.rows; row += kTileRows) {
    tile.a = block.a + row * block.a_stride;
    for (int64_t j = 0; j < block.cols; j += kPanel) {
      tile.b = block.b + j / kColumnUnit * block.panel_stride + j % kColumnUnit;
      tile.c = block.c + row * block.c_stride + j;
      tile.cols = std::min(kPanel, block.cols - j);
      if (block.addend != nullptr) {
        tile.addend = block.addend + row * block.addend_stride + j;
      }
      MultiplyTile(std::min<int64_t>(kTileRows, block.rows - row), tile);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(MultiplyBlockKernel);
HWY_EXPORT(MultiplyPanelsKernel);

GemmScratch ThreadScratch() {
  thread_local const hwy::AlignedFreeUniquePtr<float[]> scratch =
      hwy::AllocateAligned<float>(kGemmScratchBytes / sizeof(float));
  return {scratch.get(), scratch.get() + kPackedWordsA};
}

void MultiplyBlock(const GemmBlock& block) {
  HWY_DYNAMIC_DISPATCH(MultiplyBlockKernel)(block, ThreadScratch());
}

void MultiplyPanels(const PanelBlock& block) {
  HWY_DYNAMIC_DISPATCH(MultiplyPanelsKernel)(block);
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
