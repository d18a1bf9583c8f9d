#include "kernels/cpu/sru.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/sequence_blocks.h"
#include "kernels/cpu/sru_tile.h"

namespace recurve::cpu {
namespace {

using Forward = SruForwardArgs<float>;
using Backward = SruBackwardArgs<float>;

// Where gate group m of a block starts in u.
Rows<float> GateGroup(const Forward& args, const SequenceBlock& block,
                      int64_t m) {
  const SruShape& shape = args.shape;
  const int64_t column =
      (block.direction * shape.gate_groups() + m) * shape.hidden_size +
      block.unit;
  return {args.u.data + column, args.u.stride};
}

Rows<const float> SkipRows(const Forward& args, const SequenceBlock& block) {
  switch (args.shape.skip) {
    case SruSkip::kNone:
      return {};
    case SruSkip::kInput:
      return ChannelRows(args.x, block);
    case SruSkip::kTransform:
      return GateGroup(args, block, 3);
  }
  return {};
}

SruTileInputs<float> TileInputs(const Forward& args,
                                const SequenceBlock& block) {
  const SruShape& shape = args.shape;
  const int64_t channels = shape.channels();
  SruTileInputs<float> in;
  in.begin_row = block.begin_row;
  in.end_row = block.end_row;
  in.reversed = block.reversed();
  in.count = block.count;
  in.gate_stride = shape.hidden_size;
  in.step_group = shape.has_step_coefficients ? shape.gate_groups() - 2 : 0;
  in.use_tanh = shape.use_tanh;
  in.skip = SkipRows(args, block);
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

void RecurBlock(const Forward& args, Matrix<float> y,
                const SequenceBlock& block) {
  alignas(64) float state[kMaxBlockChannels];
  LoadState(args.c_first, block, state);
  SruForwardTile<float> tile;
  tile.in = TileInputs(args, block);
  tile.u = GateGroup(args, block, 0);
  tile.y = ChannelRows(y, block);
  tile.c = ChannelRows(args.c, block);
  tile.state = state;
  RunSruTile(tile);
  StoreState(state, block, args.c_last);
}

Rows<float> SkipGradientRows(const Backward& args, const SequenceBlock& block) {
  switch (args.forward.shape.skip) {
    case SruSkip::kNone:
      return {};
    case SruSkip::kInput:
      return ChannelRows(args.dx, block);
    case SruSkip::kTransform:
      return GateGroup(args.forward, block, 3);
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
  SruBackwardTile<float> tile;
  tile.in = TileInputs(forward, block);
  tile.u = GateGroup(forward, block, 0);
  tile.c = ChannelRows(forward.c, block);
  tile.c_first = forward.c_first
                     ? forward.c_first.row(block.sequence) + block.channel
                     : nullptr;
  tile.dy = ChannelRows(dy, block);
  tile.dskip = SkipGradientRows(args, block);
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

void SruRecurrenceBackward(const Backward& args, Matrix<const float> dy) {
  const SruShape& shape = args.forward.shape;
  ForEachSequenceBlock(
      args.forward.layout, shape.hidden_size, shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlockBackward(args, dy, block); });
}

}  // namespace recurve::cpu
