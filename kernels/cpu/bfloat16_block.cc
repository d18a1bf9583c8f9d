#include "kernels/cpu/bfloat16_block.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/dot_tile.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/narrow.h"
#include "kernels/cpu/words.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

// Rows of a that are converted together where there are too many for all.
constexpr int64_t kChunkRows = 64;

// Words of a panel's columns before they are transposed. The panel lies in what
// the thread's scratch has left: half of b beside all rows of a, or most of a
// beside a chunk of rows.
constexpr int64_t kPanelWords = kSumBlock / 2 * kColumnUnit;
static_assert(kPanelWords <= kPackedWordsB / 2);
static_assert(kPanelWords + kChunkRows * kSumBlock <= kPackedWordsA);

class Bfloat16Block {
 public:
  explicit Bfloat16Block(const GemmBlock& block)
      : block_(block),
        words_(WordsOf(Precision::kBfloat16, block.depth)),
        pairs_(TakesBfloat16Pairs(block.rows, DotProducts::kFastest)),
        converts_once_(block.rows <= kMaxTransposedRows),
        a_(Words(ThreadScratch().a)),
        b_(Words(ThreadScratch().b)),
        panel_(converts_once_ ? b_ + kPackedWordsB / 2
                              : a_ + kChunkRows * kSumBlock) {}

  void Multiply() const {
    if (converts_once_) ConvertRows(0, block_.rows);
    const int64_t cols = ColumnsPackedTogether(words_, converts_once_);
    for (int64_t begin = 0; begin < block_.cols; begin += cols) {
      const int64_t count = std::min(cols, block_.cols - begin);
      PackColumns(begin, count);
      if (converts_once_) {
        MultiplyRows(0, block_.rows, begin, count);
      } else {
        MultiplyChunks(begin, count);
      }
    }
  }

 private:
  void MultiplyChunks(int64_t col, int64_t cols) const {
    for (int64_t row = 0; row < block_.rows; row += kChunkRows) {
      const int64_t rows = std::min(kChunkRows, block_.rows - row);
      ConvertRows(row, rows);
      MultiplyRows(row, rows, col, cols);
    }
  }

  // The converted rows by the packed columns.
  void MultiplyRows(int64_t row, int64_t rows, int64_t col,
                    int64_t cols) const {
    DotBlock dot;
    dot.x = a_;
    dot.w = b_;
    dot.words = words_;
    dot.u = block_.c + row * block_.c_stride + col;
    dot.u_stride = block_.c_stride;
    if (block_.destination == Destination::kAccumulate) dot.addend = dot.u;
    dot.continues = block_.destination == Destination::kContinue;
    dot.addend_stride = block_.c_stride;
    dot.rows = rows;
    dot.cols = cols;
    MultiplyBfloat16(dot, pairs_);
  }

  // To [rows][words], or to floats, [rows][2 * words].
  void ConvertRows(int64_t row, int64_t rows) const {
    if (block_.a.transposed) return ConvertStoredColumns(row, rows);
    const Matrix<const float> x(block_.a.at(row, 0), rows, block_.depth,
                                block_.a.stride);
    if (pairs_) {
      RoundRows(x, a_);
    } else {
      RoundRowsWide(x, reinterpret_cast<float*>(a_));
    }
  }

  void ConvertStoredColumns(int64_t row, int64_t rows) const {
    const int64_t row_words = pairs_ ? words_ : 2 * words_;
    for (int64_t r = 0; r < rows; r += kColumnUnit) {
      const int64_t count = std::min(kColumnUnit, rows - r);
      RoundColumns(
          {block_.a.at(row + r, 0), block_.depth, count, block_.a.stride},
          kColumnUnit, panel_);
      const Matrix<const uint32_t> from(panel_, words_, count, kColumnUnit);
      if (pairs_) {
        TransposeWords(from, a_ + r * row_words, row_words);
      } else {
        TransposeWordsWide(from, reinterpret_cast<float*>(a_ + r * row_words),
                           row_words);
      }
    }
  }

  // To [panels][words][kColumnUnit], 0 past the last column.
  void PackColumns(int64_t col, int64_t cols) const {
    for (int64_t j = 0; j < cols; j += kColumnUnit) {
      const int64_t count = std::min(kColumnUnit, cols - j);
      uint32_t* const to = b_ + j * words_;
      PackPanel(col + j, count, to);
      for (int64_t k = 0; k < words_ && count < kColumnUnit; ++k) {
        std::fill_n(to + k * kColumnUnit + count, kColumnUnit - count, 0);
      }
    }
  }

  void PackPanel(int64_t col, int64_t cols, uint32_t* to) const {
    const float* from = block_.b.at(0, col);
    const int64_t stride = block_.b.stride;
    if (!block_.b.transposed) {
      return RoundColumns({from, block_.depth, cols, stride}, kColumnUnit, to);
    }
    RoundRows({from, cols, block_.depth, stride}, panel_);
    TransposeWords({panel_, cols, words_}, to, kColumnUnit);
  }

  static uint32_t* Words(float* data) {
    return reinterpret_cast<uint32_t*>(data);
  }

  const GemmBlock& block_;
  const int64_t words_;  // of a row of a, or a column of b
  const bool pairs_;
  const bool converts_once_;
  uint32_t* const a_;
  uint32_t* const b_;
  uint32_t* const panel_;
};

}  // namespace

void MultiplyBfloat16Block(const GemmBlock& block) {
  Bfloat16Block(block).Multiply();
}

}  // namespace recurve::cpu
