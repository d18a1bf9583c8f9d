#include "kernels/cpu/pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "kernels/args_check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pool.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move this one above it.
#include "hwy/highway.h"

#ifndef RECURVE_KERNELS_CPU_POOL_CC_
#define RECURVE_KERNELS_CPU_POOL_CC_
namespace recurve::cpu {

// Channels that one piece of work covers, and whose sums lie on its stack.
constexpr int64_t kChannelBlock = 64;

}  // namespace recurve::cpu
#endif  // RECURVE_KERNELS_CPU_POOL_CC_

// Each function takes rows and at most kChannelBlock channels of one sequence.
// The loops are plain C++, vectorised for each target.
HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

// `length` rows in all; sums are of those before x, then of x too.
void MeanBlock(Matrix<const float> x, double length, double* sums, float* y) {
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* row = x.row(t);
#pragma omp simd
    for (int64_t c = 0; c < x.cols; ++c) sums[c] += row[c];
  }
#pragma omp simd
  for (int64_t c = 0; c < x.cols; ++c) {
    y[c] = static_cast<float>(sums[c] / length);
  }
}

// y has the largest so far, then with x, where argmax is the row in x.
void MaxBlock(Matrix<const float> x, float* y, int32_t* argmax) {
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* row = x.row(t);
    const int32_t index = static_cast<int32_t>(t);
#pragma omp simd
    for (int64_t c = 0; c < x.cols; ++c) {
      const float best = y[c];
      const float value = row[c];
      // The first NaN stays: nothing compares greater, nor equal, to it.
      const bool better = (value > best) | ((value != value) & (best == best));
      y[c] = better ? value : best;
      argmax[c] = better ? index : argmax[c];
    }
  }
}

void MeanGradientBlock(const float* dy, Matrix<float> dx) {
  const float length = static_cast<float>(dx.rows);
  float share[kChannelBlock];
#pragma omp simd
  for (int64_t c = 0; c < dx.cols; ++c) share[c] = dy[c] / length;
  for (int64_t t = 0; t < dx.rows; ++t) {
    std::copy(share, share + dx.cols, dx.row(t));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(MeanBlock);
HWY_EXPORT(MaxBlock);
HWY_EXPORT(MeanGradientBlock);

namespace {

// Some channels of one sequence.
struct Block {
  int64_t sequence;
  int64_t first_row;
  int64_t rows;
  int64_t first_channel;
  int64_t channels;
};

// Calls f(Block) for blocks that cover all channels of all sequences.
template <typename F>
void ForEachBlock(const SequenceLayout& layout, int64_t channels, const F& f) {
  const int64_t blocks = (channels + kChannelBlock - 1) / kChannelBlock;
  ParallelFor(layout.num_sequences * blocks, layout.num_rows * channels,
              [&](int64_t i) {
                const int64_t b = i / blocks;
                const int64_t channel = i % blocks * kChannelBlock;
                const int64_t row = layout.cu_seqlens[b];
                f(Block{b, row, layout.cu_seqlens[b + 1] - row, channel,
                        std::min(kChannelBlock, channels - channel)});
              });
}

// The block's part of a matrix with a row for each row of the batch.
template <typename T>
Matrix<T> Slice(const Matrix<T>& matrix, const Block& block) {
  return matrix.row_range(block.first_row, block.rows)
      .columns(block.first_channel, block.channels);
}

// The block's part of a matrix with a row for each sequence.
template <typename T>
T* Row(const Matrix<T>& matrix, const Block& block) {
  return matrix.row(block.sequence) + block.first_channel;
}

template <typename T>
void Fill(const Matrix<T>& matrix, T value) {
  for (int64_t r = 0; r < matrix.rows; ++r) {
    std::fill(matrix.row(r), matrix.row(r) + matrix.cols, value);
  }
}

// Rows of the block's sequence that came in parts before this one.
int64_t RowsBefore(const PoolArgs<float>& args, const Block& block) {
  return args.carry ? *args.carry.rows.row(block.sequence) : 0;
}

void MeanForward(const PoolArgs<float>& args, const Block& block) {
  double zeros[kChannelBlock] = {};
  double* sums = args.carry ? Row(args.carry.sums, block) : zeros;
  const int64_t length = RowsBefore(args, block) + block.rows;
  HWY_DYNAMIC_DISPATCH(MeanBlock)
  (Slice(args.x, block), static_cast<double>(length), sums, Row(args.y, block));
}

void MaxForward(const PoolArgs<float>& args, const Block& block) {
  int32_t argmax[kChannelBlock] = {};
  const Matrix<const float> x = Slice(args.x, block);
  float* y = Row(args.y, block);
  const bool goes_on = RowsBefore(args, block) > 0;
  std::copy_n(goes_on ? Row(args.carry.maxima, block) : x.row(0),
              block.channels, y);
  HWY_DYNAMIC_DISPATCH(MaxBlock)(x, y, argmax);
  if (args.carry) std::copy_n(y, block.channels, Row(args.carry.maxima, block));
  if (!args.argmax) return;
  int32_t* saved = Row(args.argmax, block);
  for (int64_t c = 0; c < block.channels; ++c) {
    saved[c] = static_cast<int32_t>(block.first_row) + argmax[c];
  }
}

void EmptyForward(const PoolArgs<float>& args, const Block& block) {
  std::fill_n(Row(args.y, block), block.channels, 0.0f);
  if (args.kind == PoolKind::kMax && args.argmax) {
    std::fill_n(Row(args.argmax, block), block.channels, -1);
  }
}

void ForwardBlock(const PoolArgs<float>& args, const Block& block) {
  if (RowsBefore(args, block) + block.rows == 0) {
    return EmptyForward(args, block);
  }
  switch (args.kind) {
    case PoolKind::kLast:
      std::copy_n(Slice(args.x, block).row(block.rows - 1), block.channels,
                  Row(args.y, block));
      break;
    case PoolKind::kMean:
      MeanForward(args, block);
      break;
    case PoolKind::kMax:
      MaxForward(args, block);
      break;
  }
}

// After all blocks: they share their sequence's number.
void CountRows(const PoolArgs<float>& args) {
  for (int64_t b = 0; b < args.layout.num_sequences; ++b) {
    *args.carry.rows.row(b) +=
        args.layout.cu_seqlens[b + 1] - args.layout.cu_seqlens[b];
  }
}

void BackwardBlock(const PoolArgs<float>& args, const Block& block) {
  if (block.rows == 0) return;
  const Matrix<float> dx = Slice(args.dx, block);
  const float* dy = Row(args.dy, block);
  switch (args.kind) {
    case PoolKind::kLast:
      Fill(dx, 0.0f);
      std::copy_n(dy, block.channels, dx.row(block.rows - 1));
      break;
    case PoolKind::kMean:
      HWY_DYNAMIC_DISPATCH(MeanGradientBlock)(dy, dx);
      break;
    case PoolKind::kMax: {
      Fill(dx, 0.0f);
      const int32_t* argmax = Row(args.argmax, block);
      for (int64_t c = 0; c < block.channels; ++c) {
        dx.row(argmax[c] - block.first_row)[c] = dy[c];
      }
      break;
    }
  }
}

}  // namespace

absl::Status PoolForward(const PoolArgs<float>& args) {
  RETURN_IF_ERROR(CheckPoolForward(args));
  ForEachBlock(args.layout, args.y.cols,
               [&](const Block& block) { ForwardBlock(args, block); });
  if (args.carry) CountRows(args);
  return absl::OkStatus();
}

absl::Status PoolBackward(const PoolArgs<float>& args) {
  RETURN_IF_ERROR(CheckPoolBackward(args));
  ForEachBlock(args.layout, args.dy.cols,
               [&](const Block& block) { BackwardBlock(args, block); });
  return absl::OkStatus();
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
