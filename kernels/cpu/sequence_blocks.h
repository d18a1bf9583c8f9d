// How a recurrence is cut for threads: every (sequence, direction, block of
// channels) is an independent walk along time, whole or tile by tile.
#ifndef RECURVE_KERNELS_CPU_SEQUENCE_BLOCKS_H_
#define RECURVE_KERNELS_CPU_SEQUENCE_BLOCKS_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// The widest block: its states stay in the first-level cache while a walk runs
// through rows that do not.
inline constexpr int64_t kMaxBlockChannels = 512;

struct SequenceBlock {
  int64_t sequence = 0;
  int64_t begin_row = 0;  // [begin_row, end_row) of the packed batch
  int64_t end_row = 0;
  int64_t direction = 0;  // 1 walks from end_row - 1 down to begin_row
  int64_t unit = 0;       // first unit within the direction
  int64_t channel = 0;    // direction * H + unit
  int64_t count = 0;      // channels, at most kMaxBlockChannels

  bool reversed() const { return direction == 1; }
  int64_t rows() const { return end_row - begin_row; }
};

// Where a block's gates lie: group m of its row r at
// data + r * stride + m * gate_stride.
struct GateRows {
  float* data = nullptr;
  int64_t stride = 0;
  int64_t gate_stride = 0;
};

// Channels of a block. Walks are cut only as far as the team needs work: wide
// blocks read memory in longer runs. Channels do not mix, so the cut may follow
// the number of threads without touching the results.
inline int64_t BlockChannels(int64_t walks, int64_t hidden_size) {
  constexpr int64_t kGranule = 64;
  const int64_t wanted = 2 * omp_get_max_threads();
  const int64_t blocks =
      std::max<int64_t>(1, (wanted + walks - 1) / std::max<int64_t>(walks, 1));
  const int64_t channels = (hidden_size + blocks - 1) / blocks;
  const int64_t rounded = (channels + kGranule - 1) / kGranule * kGranule;
  return std::clamp(rounded, kGranule, kMaxBlockChannels);
}

// Calls f(block) for every block, in parallel.
template <typename F>
void ForEachSequenceBlock(const SequenceLayout& layout, int64_t hidden_size,
                          int64_t num_directions, const F& f) {
  const int64_t walks = layout.num_sequences * num_directions;
  const int64_t width = omp_get_max_threads() == 1
                            ? kMaxBlockChannels
                            : BlockChannels(walks, hidden_size);
  const int64_t blocks = (hidden_size + width - 1) / width;
  const int64_t elements =
      (layout.num_rows + layout.num_sequences) * num_directions * hidden_size;
  ParallelFor(walks * blocks, elements, [&](int64_t piece) {
    SequenceBlock block;
    const int64_t walk = piece / blocks;
    block.sequence = walk / num_directions;
    block.direction = walk % num_directions;
    block.begin_row = layout.cu_seqlens[block.sequence];
    block.end_row = layout.cu_seqlens[block.sequence + 1];
    block.unit = piece % blocks * width;
    block.channel = block.direction * hidden_size + block.unit;
    block.count = std::min(width, hidden_size - block.unit);
    f(block);
  });
}

// The block's rows and channels of a [N, C] matrix, absent if m is.
template <typename T>
Rows<T> ChannelRows(const Matrix<T>& m, const SequenceBlock& block) {
  if (!m) return {};
  return {m.row(block.begin_row) + block.channel, m.stride};
}

// The block's gates in u [N, D*K*H], K = gate_groups.
inline GateRows ProjectedGates(const Matrix<float>& u, int64_t gate_groups,
                               int64_t hidden_size,
                               const SequenceBlock& block) {
  const int64_t column =
      block.direction * gate_groups * hidden_size + block.unit;
  return {u.row(block.begin_row) + column, u.stride, hidden_size};
}

// The block of a [B, C] state matrix: copied to `state`, zeros if m is absent.
inline void LoadState(const Matrix<const float>& m, const SequenceBlock& block,
                      float* state) {
  if (m) {
    std::copy_n(m.row(block.sequence) + block.channel, block.count, state);
  } else {
    std::fill_n(state, block.count, 0.0f);
  }
}

inline void StoreState(const float* state, const SequenceBlock& block,
                       const Matrix<float>& m) {
  if (m) std::copy_n(state, block.count, m.row(block.sequence) + block.channel);
}

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_SEQUENCE_BLOCKS_H_
