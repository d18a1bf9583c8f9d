#include "kernels/cpu/packed_product.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "kernels/cpu/dot_tile.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/narrow.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

constexpr int64_t kWordBytes = 4;
static_assert(sizeof(float) == kWordBytes);

// Most rows whose tiles walk over a part of w together.
constexpr int64_t kMaxChunkRows = 64;

// Words for rows that are converted: where other products pack rows.
constexpr int64_t kScratchWords = kPackedWordsA - kRowSlackWords;
static_assert(kMaxNarrowDepth <= kScratchWords);

// Columns of the weights that lie side by side in one panel.
struct Run {
  int64_t from = 0;  // column of the weights
  int64_t to = 0;    // packed column
  int64_t count = 0;
};

// Calls f(run) for all of the ranges' columns, in order.
template <typename F>
int64_t ForEachRun(absl::Span<const ColumnRange> ranges, const F& f) {
  int64_t to = 0;
  for (const ColumnRange& range : ranges) {
    const int64_t end = range.begin + range.count;
    for (int64_t from = range.begin; from < end;) {
      const int64_t count =
          std::min(end - from, kColumnUnit - to % kColumnUnit);
      f(Run{from, to, count});
      from += count;
      to += count;
    }
  }
  return to;
}

// 32-bit words of a panel: rows of kColumnUnit.
int64_t PanelRows(Precision precision, int64_t depth) {
  return WordsOf(precision, depth) +
         (precision == Precision::kInt8 ? kInt8FooterRows : 0);
}

int64_t PanelWords(Precision precision, int64_t depth) {
  return PanelRows(precision, depth) * kColumnUnit;
}

void CopyColumns(Matrix<const float> w, uint32_t* to) {
  for (int64_t k = 0; k < w.rows; ++k, to += kColumnUnit) {
    std::memcpy(to, w.row(k), w.cols * sizeof(float));
  }
}

void PackRun(Precision precision, Matrix<const float> w, uint32_t* to) {
  switch (precision) {
    case Precision::kFloat32:
      return CopyColumns(w, to);
    case Precision::kBfloat16:
      return RoundColumns(w, kColumnUnit, to);
    case Precision::kInt8:
      return QuantizeColumns(w, kColumnUnit, to);
  }
}

// Columns [begin, begin + count) of w; begin is a multiple of kColumnUnit.
PackedColumns Slice(const PackedColumns& w, int64_t begin, int64_t count) {
  const int64_t words = PanelWords(w.precision, w.depth);
  return {w.precision, w.depth, count,
          w.data + begin / kColumnUnit * words * kWordBytes};
}

void MultiplyFloat32(Matrix<const float> x, const PackedColumns& w,
                     const float* bias, Matrix<float> u) {
  PanelBlock block;
  block.a_stride = x.stride;
  block.panel_stride = PanelWords(w.precision, w.depth);
  block.c = u.data;
  block.c_stride = u.stride;
  block.addend = bias;
  block.rows = x.rows;
  block.cols = w.cols;
  for (int64_t k = 0; k < w.depth; k += kSumBlock) {
    block.a = x.data + k;
    block.b = reinterpret_cast<const float*>(w.data) + k * kColumnUnit;
    block.depth = std::min(kSumBlock, w.depth - k);
    MultiplyPanels(block);
    block.addend = u.data;
    block.addend_stride = u.stride;
  }
}

// Words that a row takes as products of narrow factors want it.
int64_t RowWords(Precision precision, int64_t depth, bool wide) {
  return WordsOf(precision, depth) * (wide ? 2 : 1);
}

// Rows whose tiles walk over a part of w together: as many as there is room for
// in the thread's scratch.
int64_t ChunkRows(Precision precision, int64_t depth) {
  if (precision == Precision::kFloat32) return kMaxChunkRows;
  const bool wide = precision == Precision::kBfloat16;
  return std::min(kMaxChunkRows,
                  kScratchWords / RowWords(precision, depth, wide));
}

// Rows as products of narrow factors take them.
struct NarrowRows {
  const uint32_t* words = nullptr;  // of bf16 or int8; of float32 if wide
  const float* scales = nullptr;    // of int8
  bool wide = false;
};

// Converts a chunk of rows, into the thread's scratch.
NarrowRows Narrow(Precision precision, Matrix<const float> x, DotProducts how) {
  if (precision == Precision::kFloat32) return {};
  auto* const words = reinterpret_cast<uint32_t*>(ThreadScratch().a);
  thread_local float scales[kMaxChunkRows];
  const bool wide =
      precision == Precision::kBfloat16 && !TakesBfloat16Pairs(x.rows, how);
  if (wide) {
    RoundRowsWide(x, reinterpret_cast<float*>(words));
  } else if (precision == Precision::kBfloat16) {
    RoundRows(x, words);
  } else {
    QuantizeRows(x, words, scales);
  }
  return {words, scales, wide};
}

void MultiplyNarrow(const NarrowRows& x, const PackedColumns& w,
                    const float* bias, Matrix<float> u, DotProducts how) {
  DotBlock block;
  block.x = x.words;
  block.row_scales = x.scales;
  block.w = reinterpret_cast<const uint32_t*>(w.data);
  block.words = WordsOf(w.precision, w.depth);
  block.u = u.data;
  block.u_stride = u.stride;
  block.addend = bias;
  block.rows = u.rows;
  block.cols = u.cols;
  if (w.precision == Precision::kInt8) {
    MultiplyInt8(block, how);
  } else {
    MultiplyBfloat16(block, !x.wide);
  }
}

// A chunk of rows, by parts of w that stay in the second-level cache, beside
// the rows and the product, while all rows' tiles walk over them: in one of
// 512 KiB too.
void MultiplyChunk(Matrix<const float> x, const PackedColumns& w,
                   const float* bias, Matrix<float> u, DotProducts how) {
  constexpr int64_t kPartBytes = 128 << 10;
  const int64_t panel_bytes = PanelWords(w.precision, w.depth) * kWordBytes;
  const int64_t part_cols =
      std::max<int64_t>(1, kPartBytes / panel_bytes) * kColumnUnit;
  const NarrowRows rows = Narrow(w.precision, x, how);
  for (int64_t col = 0; col < w.cols; col += part_cols) {
    const int64_t cols = std::min(part_cols, w.cols - col);
    const PackedColumns part = Slice(w, col, cols);
    const float* part_bias = bias == nullptr ? nullptr : bias + col;
    if (w.precision == Precision::kFloat32) {
      MultiplyFloat32(x, part, part_bias, u.columns(col, cols));
    } else {
      MultiplyNarrow(rows, part, part_bias, u.columns(col, cols), how);
    }
  }
}

}  // namespace

int64_t PackedBytes(Precision precision, int64_t depth, int64_t cols) {
  const int64_t panels = (cols + kColumnUnit - 1) / kColumnUnit;
  return panels * PanelWords(precision, depth) * kWordBytes;
}

PackedColumns Pack(Precision precision, Matrix<const float> weights,
                   absl::Span<const ColumnRange> ranges, std::byte* to) {
  auto* words = reinterpret_cast<uint32_t*>(to);
  const int64_t rows = PanelRows(precision, weights.rows);
  const auto place = [&](int64_t column) {
    return words + column / kColumnUnit * rows * kColumnUnit +
           column % kColumnUnit;
  };
  const int64_t cols = ForEachRun(ranges, [&](const Run& run) {
    PackRun(precision, weights.columns(run.from, run.count), place(run.to));
  });
  if (cols % kColumnUnit != 0) {
    for (int64_t row = 0; row < rows; ++row) {
      std::fill_n(place(cols) + row * kColumnUnit,
                  kColumnUnit - cols % kColumnUnit, 0);
    }
  }
  return {precision, weights.rows, cols, to};
}

void MultiplyPacked(Matrix<const float> x, const PackedColumns& w,
                    const float* bias, Matrix<float> u, DotProducts how) {
  assert(x.cols == w.depth && u.cols == w.cols && u.rows == x.rows);
  const int64_t chunk = ChunkRows(w.precision, w.depth);
  for (int64_t row = 0; row < x.rows; row += chunk) {
    const int64_t rows = std::min(chunk, x.rows - row);
    MultiplyChunk(x.row_range(row, rows), w, bias, u.row_range(row, rows), how);
  }
}

}  // namespace recurve::cpu
