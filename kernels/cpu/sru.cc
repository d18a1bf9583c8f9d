#include "kernels/cpu/sru.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/fused_layer.h"
#include "kernels/cpu/sequence_blocks.h"
#include "kernels/cpu/sru_tile.h"

namespace recurve::cpu {
namespace {

using Forward = SruForwardArgs<float>;
using Backward = SruBackwardArgs<float>;

// Where the unfused passes have the block's gates.
GateRows Gates(const Forward& args, const SequenceBlock& block) {
  return ProjectedGates(args.u, args.shape.gate_groups(),
                        args.shape.hidden_size, block);
}

Rows<float> GateGroup(const GateRows& u, int64_t m) {
  return {u.data + m * u.gate_stride, u.stride};
}

Rows<const float> SkipRows(const Forward& args, const SequenceBlock& block,
                           const GateRows& u) {
  switch (args.shape.skip) {
    case SruSkip::kNone:
      return {};
    case SruSkip::kInput:
      return ChannelRows(args.x, block);
    case SruSkip::kTransform:
      return GateGroup(u, 3);
  }
  return {};
}

SruTileInputs<float> TileInputs(const Forward& args, const SequenceBlock& block,
                                const GateRows& u) {
  const SruShape& shape = args.shape;
  const int64_t channels = shape.channels();
  SruTileInputs<float> in;
  in.rows = block.rows();
  in.reversed = block.reversed();
  in.count = block.count;
  in.gate_stride = u.gate_stride;
  in.step_group = shape.has_step_coefficients ? shape.gate_groups() - 2 : 0;
  in.use_tanh = shape.use_tanh;
  in.skip = SkipRows(args, block, u);
  // A transformed skip is never scaled.
  in.skip_scale = shape.skip == SruSkip::kInput ? shape.skip_scale : 1.0f;
  in.v_f = args.weights.v + block.channel;
  in.v_r = in.v_f + channels;
  in.b_f = args.weights.bias + block.channel;
  in.b_r = in.b_f + channels;
  in.mask = args.mask_cell ? args.mask_cell.row(block.sequence) + block.channel
                           : nullptr;
  return in;
}

void RecurTile(const Forward& args, Matrix<float> y, const SequenceBlock& block,
               const GateRows& u, float* state) {
  SruForwardTile<float> tile;
  tile.in = TileInputs(args, block, u);
  tile.u = GateGroup(u, 0);
  tile.y = ChannelRows(y, block);
  tile.c = ChannelRows(args.c, block);
  tile.state = state;
  RunSruTile(tile);
}

void RecurBlock(const Forward& args, Matrix<float> y,
                const SequenceBlock& block) {
  alignas(64) float state[kMaxBlockChannels];
  LoadState(args.c_first, block, state);
  RecurTile(args, y, block, Gates(args, block), state);
  StoreState(state, block, args.c_last);
}

Rows<float> SkipGradientRows(const Backward& args, const SequenceBlock& block,
                             const GateRows& u) {
  switch (args.forward.shape.skip) {
    case SruSkip::kNone:
      return {};
    case SruSkip::kInput:
      return ChannelRows(args.dx, block);
    case SruSkip::kTransform:
      return GateGroup(u, 3);
  }
  return {};
}

// This block's place in channel_partials, zeroed: dv_f, dv_r, db_f, db_r.
void SetPartials(const Backward& args, const SequenceBlock& block,
                 SruBackwardTile<float>& tile) {
  const int64_t channels = args.forward.shape.channels();
  float* row = args.channel_partials.row(block.sequence) + block.channel;
  for (float** sums : {&tile.dv_f, &tile.dv_r, &tile.db_f, &tile.db_r}) {
    *sums = row;
    std::fill_n(row, block.count, 0.0f);
    row += channels;
  }
}

void RecurBlockBackward(const Backward& args, Matrix<const float> dy,
                        const SequenceBlock& block) {
  alignas(64) float state[kMaxBlockChannels];
  const Forward& forward = args.forward;
  LoadState(args.dc_last, block, state);
  const GateRows u = Gates(forward, block);
  SruBackwardTile<float> tile;
  tile.in = TileInputs(forward, block, u);
  tile.u = GateGroup(u, 0);
  tile.c = ChannelRows(forward.c, block);
  tile.c_first = forward.c_first
                     ? forward.c_first.row(block.sequence) + block.channel
                     : nullptr;
  tile.dy = ChannelRows(dy, block);
  tile.dskip = SkipGradientRows(args, block, u);
  tile.state = state;
  SetPartials(args, block, tile);
  RunSruTile(tile);
  StoreState(state, block, args.dc_first);
}

}  // namespace

void SruRecurrence(const Forward& args, Matrix<float> y) {
  ForEachSequenceBlock(
      args.layout, args.shape.hidden_size, args.shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlock(args, y, block); });
}

void SruFused(const Forward& args, Matrix<const float> input, Matrix<float> y) {
  const SruShape& shape = args.shape;
  FusedLayer layer;
  layer.layout = args.layout;
  layer.projection = shape.projection();
  layer.packed = args.weights.packed;
  layer.bias = args.weights.projection_bias;
  layer.input = input;
  layer.c_first = args.c_first;
  layer.c_last = args.c_last;
  RunFused(layer, [&](const SequenceBlock& block, const GateRows& u,
                      float* state) { RecurTile(args, y, block, u, state); });
}

void SruRecurrenceBackward(const Backward& args, Matrix<const float> dy) {
  const SruShape& shape = args.forward.shape;
  ForEachSequenceBlock(
      args.forward.layout, shape.hidden_size, shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlockBackward(args, dy, block); });
}

}  // namespace recurve::cpu
