#include "kernels/cpu/qrnn.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/column_sum.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/qrnn_tile.h"
#include "kernels/cpu/sequence_blocks.h"
#include "kernels/cpu/shape_check.h"
#include "kernels/cpu/window.h"
#include "kernels/status.h"

namespace recurve::cpu {
namespace {

using Forward = QrnnForwardArgs<float>;
using Backward = QrnnBackwardArgs<float>;

void CheckForward(ShapeCheck& check, const Forward& args) {
  const QrnnShape& shape = args.shape;
  const int64_t n = args.layout.num_rows, b = args.layout.num_sequences;
  const int64_t c = shape.channels(), i = shape.input_size;
  const bool windowed = shape.window == 2;
  check.That(shape.num_directions == 1 || shape.num_directions == 2,
             "one or two directions");
  check.That(shape.window == 1 || windowed, "a window of 1 or 2");
  const bool keeps_rows = args.x_previous || args.x_last;
  check.That(!keeps_rows || (windowed && shape.num_directions == 1),
             "previous input rows only with window 2 and one direction");
  check.Layout(args.layout);
  check.Required("projection", args.weights.projection, shape.window * i,
                 shape.projected_cols());
  check.Required("bias", args.weights.bias);
  check.Required("x", args.x, n, i).Required("y", args.y, n, c);
  check.Optional("zoneout_mask", args.zoneout_mask, n, c);
  check.Optional("c_first", args.c_first, b, c);
  check.Optional("c_last", args.c_last, b, c);
  check.Optional("x_previous", args.x_previous, b, i);
  check.Optional("x_last", args.x_last, b, i);
  check.Required("u", args.u, n, shape.projected_cols());
  check.Optional("c", args.c, n, c);
  if (windowed) {
    check.Required("window_rows", args.window_rows, n,
                   shape.num_directions * 2 * i);
  }
}

void CheckBackward(ShapeCheck& check, const Backward& args) {
  const Forward& forward = args.forward;
  const QrnnShape& shape = forward.shape;
  const int64_t n = forward.layout.num_rows, b = forward.layout.num_sequences;
  const int64_t c = shape.channels(), i = shape.input_size;
  CheckForward(check, forward);
  check.Required("c", forward.c, n, c).Required("dy", args.dy, n, c);
  check.Optional("dc_last", args.dc_last, b, c);
  check.Optional("dc_first", args.dc_first, b, c);
  check.Optional("dx", args.dx, n, i);
  check.Required("gradients.projection", args.gradients.projection,
                 shape.window * i, shape.projected_cols());
  check.Required("channel_partials", args.channel_partials, b,
                 shape.projected_cols());
  if (shape.window == 2 && args.dx) {
    check.Required("dwindow_rows", args.dwindow_rows, n,
                   shape.num_directions * 2 * i);
  }
}

// The columns of u, of the projection or of a bias that belong to a direction.
template <typename T>
Matrix<T> DirectionColumns(const QrnnShape& shape, Matrix<T> m, int64_t d) {
  const int64_t width = shape.gate_groups() * shape.hidden_size;
  return m.columns(d * width, width);
}

// The columns of window_rows that belong to a direction.
template <typename T>
Matrix<T> WindowColumns(const QrnnShape& shape, Matrix<T> m, int64_t d) {
  return m.columns(d * 2 * shape.input_size, 2 * shape.input_size);
}

absl::Status Project(const Forward& args) {
  const QrnnShape& shape = args.shape;
  const auto& w = args.weights.projection;
  if (shape.window == 1) return MatMul(args.x, w, args.u);
  FillWindowRows(args.layout, args.x, args.x_previous, args.window_rows);
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    RETURN_IF_ERROR(MatMul(WindowColumns(shape, args.window_rows, d),
                           DirectionColumns(shape, w, d),
                           DirectionColumns(shape, args.u, d)));
  }
  return absl::OkStatus();
}

// The first column of a block's gate group z, in u and all that is laid out
// like its columns.
int64_t GateColumn(const QrnnShape& shape, const SequenceBlock& block) {
  return block.direction * shape.gate_groups() * shape.hidden_size + block.unit;
}

QrnnTileInputs TileInputs(const Forward& args, const SequenceBlock& block) {
  const QrnnShape& shape = args.shape;
  QrnnTileInputs in;
  in.begin_row = block.begin_row;
  in.end_row = block.end_row;
  in.reversed = block.reversed();
  in.count = block.count;
  in.gate_stride = shape.hidden_size;
  in.output_gate = shape.output_gate;
  in.bias = args.weights.bias + GateColumn(shape, block);
  in.zoneout_mask = ChannelRows(args.zoneout_mask, block);
  in.i_scale = 1.0f - shape.zoneout;
  return in;
}

void RecurBlock(const Forward& args, const SequenceBlock& block) {
  alignas(64) float state[kMaxBlockChannels];
  LoadState(args.c_first, block, state);
  QrnnForwardTile<float> tile;
  tile.in = TileInputs(args, block);
  tile.u = {args.u.data + GateColumn(args.shape, block), args.u.stride};
  tile.y = ChannelRows(args.y, block);
  tile.c = ChannelRows(args.c, block);
  tile.state = state;
  RunQrnnTile(tile);
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
  tile.in = TileInputs(forward, block);
  tile.u = {forward.u.data + GateColumn(forward.shape, block),
            forward.u.stride};
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

absl::Status WeightGradient(const Backward& args) {
  const Forward& forward = args.forward;
  const QrnnShape& shape = forward.shape;
  if (shape.window == 1) {
    return MatMul(Transposed(forward.x), forward.u, args.gradients.projection);
  }
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    RETURN_IF_ERROR(
        MatMul(Transposed(WindowColumns(shape, forward.window_rows, d)),
               DirectionColumns(shape, forward.u, d),
               DirectionColumns(shape, args.gradients.projection, d)));
  }
  return absl::OkStatus();
}

absl::Status InputGradient(const Backward& args) {
  const Forward& forward = args.forward;
  const QrnnShape& shape = forward.shape;
  const auto& w = forward.weights.projection;
  if (shape.window == 1) return MatMul(forward.u, Transposed(w), args.dx);
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    RETURN_IF_ERROR(MatMul(DirectionColumns(shape, forward.u, d),
                           Transposed(DirectionColumns(shape, w, d)),
                           WindowColumns(shape, args.dwindow_rows, d)));
  }
  GatherWindowGradient(forward.layout, args.dwindow_rows, args.dx);
  return absl::OkStatus();
}

}  // namespace

absl::Status QrnnForward(const Forward& args) {
  ShapeCheck check("QrnnForward");
  CheckForward(check, args);
  RETURN_IF_ERROR(check.status());
  RETURN_IF_ERROR(Project(args));
  ForEachSequenceBlock(
      args.layout, args.shape.hidden_size, args.shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlock(args, block); });
  // After the window rows were filled: x_last may be x_previous.
  if (args.x_last) {
    StoreLastRows(args.layout, args.x, args.x_previous, args.x_last);
  }
  return absl::OkStatus();
}

absl::Status QrnnBackward(const Backward& args) {
  ShapeCheck check("QrnnBackward");
  CheckBackward(check, args);
  RETURN_IF_ERROR(check.status());
  const Forward& forward = args.forward;
  ForEachSequenceBlock(
      forward.layout, forward.shape.hidden_size, forward.shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlockBackward(args, block); });
  if (args.gradients.bias) {
    ColumnSums(args.channel_partials, args.gradients.bias);
  }
  RETURN_IF_ERROR(WeightGradient(args));
  return args.dx ? InputGradient(args) : absl::OkStatus();
}

}  // namespace recurve::cpu
