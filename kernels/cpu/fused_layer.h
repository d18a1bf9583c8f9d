// A layer's projection and recurrence in one walk: a tile of rows is multiplied
// by the packed weights of a group of channels, and the recurrence of these
// channels takes the product while it is in the cache. The product of all rows
// is never in memory.
//
// Groups outside, rows inside: a group's weights stay in the second-level cache
// while all rows pass. The bits are those of product first, recurrence after.
#ifndef RECURVE_KERNELS_CPU_FUSED_LAYER_H_
#define RECURVE_KERNELS_CPU_FUSED_LAYER_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/cell_args.h"
#include "kernels/cpu/channel_groups.h"
#include "kernels/cpu/sequence_blocks.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// Rows of a tile: what the packed product reads its weights once for.
inline constexpr int64_t kTileRows = 64;
// What a thread keeps its tile in, with the group's biases and states.
inline constexpr int64_t kFusedScratchBytes =
    (kTileRows + 2) * kMaxGroupColumns * static_cast<int64_t>(sizeof(float));
// Allocates the calling thread's, if it has none yet.
void ReserveFusedScratch();

struct FusedLayer {
  SequenceLayout layout;
  ProjectionShape projection;
  PackedProjection packed;      // ChannelGroups::Pack's
  const float* bias = nullptr;  // [D*K*H]; optional
  // Direction d multiplies columns [d * input_stride, ... + depth).
  Matrix<const float> input;
  int64_t input_stride = 0;
  Matrix<const float> c_first;  // [B, C]; absent = zeros
  Matrix<float> c_last;         // [B, C]; may alias c_first; optional
};

// Calls recur for blocks of rows of one sequence and one group of channels,
// along each sequence in the order of its direction. `state` is c before the
// block's first row; recur makes it c after the last.
void RunFused(const FusedLayer& layer,
              absl::FunctionRef<void(const SequenceBlock& block,
                                     const GateRows& u, float* state)>
                  recur);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_FUSED_LAYER_H_
