#include "kernels/cpu/qrnn.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/fused_layer.h"
#include "kernels/cpu/qrnn_tile.h"
#include "kernels/cpu/sequence_blocks.h"

namespace recurve::cpu {
namespace {

using Forward = QrnnForwardArgs<float>;
using Backward = QrnnBackwardArgs<float>;

// The first column of a block's gate group z, in what is laid out like u's
// columns.
int64_t GateColumn(const QrnnShape& shape, const SequenceBlock& block) {
  return block.direction * shape.gate_groups() * shape.hidden_size + block.unit;
}

// Where the unfused passes have the block's gates.
GateRows Gates(const Forward& args, const SequenceBlock& block) {
  return ProjectedGates(args.u, args.shape.gate_groups(),
                        args.shape.hidden_size, block);
}

QrnnTileInputs TileInputs(const Forward& args, const SequenceBlock& block,
                          const GateRows& u) {
  const QrnnShape& shape = args.shape;
  QrnnTileInputs in;
  in.rows = block.rows();
  in.reversed = block.reversed();
  in.count = block.count;
  in.gate_stride = u.gate_stride;
  in.bias_stride = shape.hidden_size;
  in.output_gate = shape.output_gate;
  in.bias = args.weights.bias + GateColumn(shape, block);
  in.zoneout_mask = ChannelRows(args.zoneout_mask, block);
  in.i_scale = 1.0f - shape.zoneout;
  return in;
}

void RecurTile(const Forward& args, const SequenceBlock& block,
               const GateRows& u, float* state) {
  QrnnForwardTile<float> tile;
  tile.in = TileInputs(args, block, u);
  tile.u = {u.data, u.stride};
  tile.y = ChannelRows(args.y, block);
  tile.c = ChannelRows(args.c, block);
  tile.state = state;
  RunQrnnTile(tile);
}

void RecurBlock(const Forward& args, const SequenceBlock& block) {
  alignas(64) float state[kMaxBlockChannels];
  LoadState(args.c_first, block, state);
  RecurTile(args, block, Gates(args, block), state);
  StoreState(state, block, args.c_last);
}

// This block's place in channel_partials, zeroed.
float* ZeroedPartials(const Backward& args, const SequenceBlock& block) {
  const QrnnShape& shape = args.forward.shape;
  float* first =
      args.channel_partials.row(block.sequence) + GateColumn(shape, block);
  for (int64_t m = 0; m < shape.gate_groups(); ++m) {
    std::fill_n(first + m * shape.hidden_size, block.count, 0.0f);
  }
  return first;
}

void RecurBlockBackward(const Backward& args, const SequenceBlock& block) {
  alignas(64) float state[kMaxBlockChannels];
  const Forward& forward = args.forward;
  LoadState(args.dc_last, block, state);
  QrnnBackwardTile<float> tile;
  const GateRows u = Gates(forward, block);
  tile.in = TileInputs(forward, block, u);
  tile.u = {u.data, u.stride};
  tile.c = ChannelRows(forward.c, block);
  tile.c_first = forward.c_first
                     ? forward.c_first.row(block.sequence) + block.channel
                     : nullptr;
  tile.dy = ChannelRows(args.dy, block);
  tile.state = state;
  tile.dbias = ZeroedPartials(args, block);
  RunQrnnTile(tile);
  StoreState(state, block, args.dc_first);
}

}  // namespace

void QrnnRecurrence(const Forward& args) {
  ForEachSequenceBlock(
      args.layout, args.shape.hidden_size, args.shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlock(args, block); });
}

void QrnnFused(const Forward& args) {
  const QrnnShape& shape = args.shape;
  FusedLayer layer;
  layer.layout = args.layout;
  layer.projection = shape.projection();
  layer.packed = args.weights.packed;
  layer.c_first = args.c_first;
  layer.c_last = args.c_last;
  layer.input = args.x;
  if (shape.window == 2) {
    layer.input = args.window_rows;
    layer.input_stride = 2 * shape.input_size;
  }
  RunFused(layer, [&](const SequenceBlock& block, const GateRows& u,
                      float* state) { RecurTile(args, block, u, state); });
}

void QrnnRecurrenceBackward(const Backward& args) {
  const Forward& forward = args.forward;
  ForEachSequenceBlock(
      forward.layout, forward.shape.hidden_size, forward.shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlockBackward(args, block); });
}

}  // namespace recurve::cpu
