#include "kernels/cpu/sru.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/column_sum.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/row_mask.h"
#include "kernels/cpu/sequence_blocks.h"
#include "kernels/cpu/shape_check.h"
#include "kernels/cpu/sru_tile.h"
#include "kernels/status.h"

namespace recurve::cpu {
namespace {

using Forward = SruForwardArgs<float>;
using Backward = SruBackwardArgs<float>;

bool HasProjectionInput(const Forward& args) {
  return args.shape.layer_norm == NormPlace::kBefore || args.mask_in;
}

int64_t ProjectionRows(const SruShape& shape) {
  return shape.projection_size > 0 ? shape.projection_size : shape.input_size;
}

template <typename S, typename F>
void CheckProjections(ShapeCheck& check, const SruShape& shape,
                      const SruWeights<S, F>& weights) {
  if (shape.projection_size > 0) {
    check.Required("projection_in", weights.projection_in, shape.input_size,
                   shape.projection_size);
  }
  check.Required("projection", weights.projection, ProjectionRows(shape),
                 shape.projected_cols());
}

void CheckForward(ShapeCheck& check, const Forward& args) {
  const SruShape& shape = args.shape;
  const int64_t n = args.layout.num_rows, b = args.layout.num_sequences;
  const int64_t c = shape.channels(), i = shape.input_size;
  check.That(shape.num_directions == 1 || shape.num_directions == 2,
             "one or two directions");
  check.That(shape.skip != SruSkip::kInput || i == c,
             "input size equal to channels for a skip of the input");
  check.Layout(args.layout);
  CheckProjections(check, shape, args.weights);
  check.Required("v", args.weights.v).Required("bias", args.weights.bias);
  check.Required("x", args.x, n, i).Required("y", args.y, n, c);
  check.Optional("mask_in", args.mask_in, b, i);
  check.Optional("mask_cell", args.mask_cell, b, c);
  check.Optional("c_first", args.c_first, b, c);
  check.Optional("c_last", args.c_last, b, c);
  check.Required("u", args.u, n, shape.projected_cols());
  check.Optional("c", args.c, n, c);
  if (HasProjectionInput(args)) {
    check.Required("projection_input", args.projection_input, n, i);
  }
  if (shape.projection_size > 0) {
    check.Required("low_rank", args.low_rank, n, shape.projection_size);
  }
  if (shape.layer_norm != NormPlace::kNone) {
    check.Required("norm_weight", args.weights.norm_weight);
    check.Required("norm_bias", args.weights.norm_bias);
    check.Optional("norm_input", args.norm_input, n, c);
    check.Optional("norm_statistics", args.norm_statistics, n, 2);
  }
}

void CheckBackward(ShapeCheck& check, const Backward& args) {
  const Forward& forward = args.forward;
  const SruShape& shape = forward.shape;
  const int64_t n = forward.layout.num_rows, b = forward.layout.num_sequences;
  const int64_t c = shape.channels(), i = shape.input_size;
  CheckForward(check, forward);
  CheckProjections(check, shape, args.gradients);
  check.Required("c", forward.c, n, c).Required("dy", args.dy, n, c);
  check.Optional("dc_last", args.dc_last, b, c);
  check.Optional("dc_first", args.dc_first, b, c);
  check.Optional("dx", args.dx, n, i);
  check.Required("channel_partials", args.channel_partials, b, 4 * c);
  if (HasProjectionInput(forward)) {
    check.Required("dprojection_input", args.dprojection_input, n, i);
  }
  if (shape.projection_size > 0) {
    check.Required("dlow_rank", args.dlow_rank, n, shape.projection_size);
  }
  if (shape.layer_norm != NormPlace::kNone) {
    check.Required("norm_statistics", forward.norm_statistics, n, 2);
  }
  if (shape.layer_norm == NormPlace::kAfter) {
    check.Required("norm_input", forward.norm_input, n, c);
    check.Required("dnorm_input", args.dnorm_input, n, c);
  }
}

// The input of the first product: x, normalised and masked as asked.
Matrix<const float> PrepareInput(const Forward& args) {
  Matrix<const float> input = args.x;
  if (args.shape.layer_norm == NormPlace::kBefore) {
    LayerNormForward(input, args.weights.norm_weight, args.weights.norm_bias,
                     args.projection_input, args.norm_statistics);
    input = args.projection_input;
  }
  if (args.mask_in) {
    MultiplyBySequenceMask(args.layout, input, args.mask_in,
                           args.projection_input, Destination::kOverwrite);
    input = args.projection_input;
  }
  return input;
}

absl::Status Project(const Forward& args, Matrix<const float> input) {
  const auto& weights = args.weights;
  if (args.shape.projection_size > 0) {
    RETURN_IF_ERROR(MatMul(input, weights.projection_in, args.low_rank));
    input = args.low_rank;
  }
  if (weights.projection_bias == nullptr) {
    return MatMul(input, weights.projection, args.u);
  }
  return MatMulWithBias(input, weights.projection, weights.projection_bias,
                        args.u);
}

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

void Recur(const Forward& args) {
  const bool post_norm = args.shape.layer_norm == NormPlace::kAfter;
  const Matrix<float> y =
      post_norm && args.norm_input ? args.norm_input : args.y;
  ForEachSequenceBlock(
      args.layout, args.shape.hidden_size, args.shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlock(args, y, block); });
  if (post_norm) {
    LayerNormForward(y, args.weights.norm_weight, args.weights.norm_bias,
                     args.y, args.norm_statistics);
  }
}

// The gradient of y before any post-norm.
Matrix<const float> OutputGradient(const Backward& args) {
  const Forward& forward = args.forward;
  if (forward.shape.layer_norm != NormPlace::kAfter) return args.dy;
  LayerNormBackward(forward.norm_input, forward.norm_statistics,
                    forward.weights.norm_weight, args.dy, args.dnorm_input,
                    Destination::kOverwrite, args.gradients.norm_weight,
                    args.gradients.norm_bias);
  return args.dnorm_input;
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

void RecurBackward(const Backward& args, Matrix<const float> dy) {
  const SruShape& shape = args.forward.shape;
  ForEachSequenceBlock(
      args.forward.layout, shape.hidden_size, shape.num_directions,
      [&](const SequenceBlock& block) { RecurBlockBackward(args, dy, block); });
  const int64_t both = 2 * shape.channels();
  if (args.gradients.v) {
    ColumnSums(args.channel_partials.columns(0, both), args.gradients.v);
  }
  if (args.gradients.bias) {
    ColumnSums(args.channel_partials.columns(both, both), args.gradients.bias);
  }
}

// d(product) with respect to its weight, then its input if `dinput` is there.
absl::Status ProductBackward(Matrix<const float> input,
                             Matrix<const float> weight,
                             Matrix<const float> doutput, Matrix<float> dweight,
                             Matrix<float> dinput, Destination destination) {
  RETURN_IF_ERROR(MatMul(Transposed(input), doutput, dweight));
  if (!dinput) return absl::OkStatus();
  return MatMul(doutput, Transposed(weight), dinput, destination);
}

// Gradients of the projections' weights, and of their input into `dinput`.
absl::Status ProjectBackward(const Backward& args, Matrix<float> dinput,
                             Destination destination) {
  const Forward& forward = args.forward;
  const auto& weights = forward.weights;
  if (args.gradients.projection_bias) {
    ColumnSums(forward.u, args.gradients.projection_bias);
  }
  const Matrix<const float> input =
      HasProjectionInput(forward) ? forward.projection_input : forward.x;
  if (forward.shape.projection_size == 0) {
    return ProductBackward(input, weights.projection, forward.u,
                           args.gradients.projection, dinput, destination);
  }
  RETURN_IF_ERROR(ProductBackward(forward.low_rank, weights.projection,
                                  forward.u, args.gradients.projection,
                                  args.dlow_rank, Destination::kOverwrite));
  return ProductBackward(input, weights.projection_in, args.dlow_rank,
                         args.gradients.projection_in, dinput, destination);
}

// From dprojection_input through mask and pre-norm to dx.
void PrepareInputBackward(const Backward& args, Destination destination) {
  const Forward& forward = args.forward;
  const bool norm = forward.shape.layer_norm == NormPlace::kBefore;
  if (forward.mask_in && (norm || args.dx)) {
    MultiplyBySequenceMask(forward.layout, args.dprojection_input,
                           forward.mask_in,
                           norm ? args.dprojection_input : args.dx,
                           norm ? Destination::kOverwrite : destination);
  }
  if (norm) {
    LayerNormBackward(forward.x, forward.norm_statistics,
                      forward.weights.norm_weight, args.dprojection_input,
                      args.dx, destination, args.gradients.norm_weight,
                      args.gradients.norm_bias);
  }
}

}  // namespace

absl::Status SruForward(const Forward& args) {
  ShapeCheck check("SruForward");
  CheckForward(check, args);
  RETURN_IF_ERROR(check.status());
  RETURN_IF_ERROR(Project(args, PrepareInput(args)));
  Recur(args);
  return absl::OkStatus();
}

absl::Status SruBackward(const Backward& args) {
  ShapeCheck check("SruBackward");
  CheckBackward(check, args);
  RETURN_IF_ERROR(check.status());
  RecurBackward(args, OutputGradient(args));
  // A skip of the input has put its gradient into dx, past norm and mask.
  const Destination dx_destination = args.forward.shape.skip == SruSkip::kInput
                                         ? Destination::kAccumulate
                                         : Destination::kOverwrite;
  if (!HasProjectionInput(args.forward)) {
    return ProjectBackward(args, args.dx, dx_destination);
  }
  RETURN_IF_ERROR(
      ProjectBackward(args, args.dprojection_input, Destination::kOverwrite));
  PrepareInputBackward(args, dx_destination);
  return absl::OkStatus();
}

}  // namespace recurve::cpu
