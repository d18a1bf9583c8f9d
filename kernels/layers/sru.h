// An SRU layer of any backend, from its parts: norm, mask and projections of
// all rows, the recurrence, norm; and back. The mathematics of the recurrence
// is the backend's.
//
// Errors: InvalidArgument for shapes that contradict each other or a missing
// buffer, else what the parts return.
#ifndef RECURVE_KERNELS_LAYERS_SRU_H_
#define RECURVE_KERNELS_LAYERS_SRU_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cell_args.h"
#include "kernels/layers/parts.h"
#include "kernels/product.h"
#include "kernels/shape_check.h"
#include "kernels/status.h"

namespace recurve::layers {
namespace internal {

template <typename S>
bool HasProjectionInput(const SruForwardArgs<S>& args) {
  return args.shape.layer_norm == NormPlace::kBefore || args.mask_in;
}

inline int64_t ProjectionRows(const SruShape& shape) {
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

template <typename S>
void CheckForward(ShapeCheck& check, const SruForwardArgs<S>& args,
                  bool fused) {
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
  if (!fused) check.Required("u", args.u, n, shape.projected_cols());
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

template <typename S>
void CheckBackward(ShapeCheck& check, const SruBackwardArgs<S>& args) {
  const SruForwardArgs<S>& forward = args.forward;
  const SruShape& shape = forward.shape;
  const int64_t n = forward.layout.num_rows, b = forward.layout.num_sequences;
  const int64_t c = shape.channels(), i = shape.input_size;
  CheckForward(check, forward, /*fused=*/false);
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

// Sets `input` to the input of the first product: x, normalised and masked as
// asked.
template <typename S, LayerParts<S> Parts>
absl::Status PrepareInput(Parts& parts, const SruForwardArgs<S>& args,
                          Matrix<const S>& input) {
  input = args.x;
  if (args.shape.layer_norm == NormPlace::kBefore) {
    RETURN_IF_ERROR(parts.LayerNormForward(
        input, args.weights.norm_weight, args.weights.norm_bias,
        args.projection_input, args.norm_statistics));
    input = args.projection_input;
  }
  if (args.mask_in) {
    RETURN_IF_ERROR(parts.MultiplyBySequenceMask(
        args.layout, input, args.mask_in, args.projection_input,
        Destination::kOverwrite));
    input = args.projection_input;
  }
  return absl::OkStatus();
}

// From the input of the first product to that of the projection.
template <typename S, LayerParts<S> Parts>
absl::Status Reduce(Parts& parts, const SruForwardArgs<S>& args,
                    Matrix<const S>& input) {
  if (args.shape.projection_size == 0) return absl::OkStatus();
  RETURN_IF_ERROR(parts.MatMul(Factor<S>(input), args.weights.projection_in,
                               args.low_rank, Destination::kOverwrite));
  input = args.low_rank;
  return absl::OkStatus();
}

template <typename S, LayerParts<S> Parts>
absl::Status Project(Parts& parts, const SruForwardArgs<S>& args,
                     Matrix<const S> input) {
  const auto& weights = args.weights;
  if (weights.projection_bias == nullptr) {
    return parts.MatMul(Factor<S>(input), weights.projection, args.u,
                        Destination::kOverwrite);
  }
  return parts.MatMulWithBias(Factor<S>(input), weights.projection,
                              weights.projection_bias, args.u);
}

template <typename S, LayerParts<S> Parts>
absl::Status ProjectAndRecur(Parts& parts, const SruForwardArgs<S>& args,
                             Matrix<const S> input, Matrix<S> y) {
  if constexpr (HasFusedCells<Parts, S>) {
    if (IsFused<Parts, S>(args)) return parts.SruFused(args, input, y);
  }
  RETURN_IF_ERROR(Project(parts, args, input));
  return parts.SruRecurrence(args, y);
}

template <typename S, LayerParts<S> Parts>
absl::Status Cell(Parts& parts, const SruForwardArgs<S>& args,
                  Matrix<const S> input) {
  const bool post_norm = args.shape.layer_norm == NormPlace::kAfter;
  const Matrix<S> y = post_norm && args.norm_input ? args.norm_input : args.y;
  RETURN_IF_ERROR(ProjectAndRecur(parts, args, input, y));
  if (!post_norm) return absl::OkStatus();
  return parts.LayerNormForward(y, args.weights.norm_weight,
                                args.weights.norm_bias, args.y,
                                args.norm_statistics);
}

template <typename S, LayerParts<S> Parts>
absl::Status PostNormBackward(Parts& parts, const SruBackwardArgs<S>& args) {
  const SruForwardArgs<S>& forward = args.forward;
  return parts.LayerNormBackward(
      forward.norm_input, forward.norm_statistics, forward.weights.norm_weight,
      args.dy, args.dnorm_input, Destination::kOverwrite,
      args.gradients.norm_weight, args.gradients.norm_bias);
}

// Through post-norm and recurrence to u, with the gradients of v and bias.
template <typename S, LayerParts<S> Parts>
absl::Status RecurBackward(Parts& parts, const SruBackwardArgs<S>& args) {
  Matrix<const S> dy = args.dy;
  if (args.forward.shape.layer_norm == NormPlace::kAfter) {
    RETURN_IF_ERROR(PostNormBackward(parts, args));
    dy = args.dnorm_input;
  }
  RETURN_IF_ERROR(parts.SruRecurrenceBackward(args, dy));
  const int64_t both = 2 * args.forward.shape.channels();
  const Matrix<const float> partials = args.channel_partials;
  if (args.gradients.v) {
    RETURN_IF_ERROR(
        parts.ColumnSums(partials.columns(0, both), args.gradients.v));
  }
  if (args.gradients.bias) {
    RETURN_IF_ERROR(
        parts.ColumnSums(partials.columns(both, both), args.gradients.bias));
  }
  return absl::OkStatus();
}

// d(product) with respect to its weight, then its input if `dinput` is there.
template <typename S, LayerParts<S> Parts>
absl::Status ProductBackward(Parts& parts, Matrix<const S> input,
                             Matrix<const S> weight, Matrix<const S> doutput,
                             Matrix<float> dweight, Matrix<S> dinput,
                             Destination destination) {
  RETURN_IF_ERROR(parts.MatMul(Transposed(input), doutput, dweight,
                               Destination::kOverwrite));
  if (!dinput) return absl::OkStatus();
  return parts.MatMul(Factor<S>(doutput), Transposed(weight), dinput,
                      destination);
}

// Gradients of the projections' weights, and of their input into `dinput`.
template <typename S, LayerParts<S> Parts>
absl::Status ProjectBackward(Parts& parts, const SruBackwardArgs<S>& args,
                             Matrix<S> dinput, Destination destination) {
  const SruForwardArgs<S>& forward = args.forward;
  const auto& weights = forward.weights;
  const Matrix<const S> du = forward.u;
  if (args.gradients.projection_bias) {
    RETURN_IF_ERROR(parts.ColumnSums(du, args.gradients.projection_bias));
  }
  const Matrix<const S> input =
      HasProjectionInput(forward) ? forward.projection_input : forward.x;
  if (forward.shape.projection_size == 0) {
    return ProductBackward<S>(parts, input, weights.projection, du,
                              args.gradients.projection, dinput, destination);
  }
  RETURN_IF_ERROR(ProductBackward<S>(
      parts, forward.low_rank, weights.projection, du,
      args.gradients.projection, args.dlow_rank, Destination::kOverwrite));
  return ProductBackward<S>(parts, input, weights.projection_in, args.dlow_rank,
                            args.gradients.projection_in, dinput, destination);
}

// From dprojection_input through mask and pre-norm to dx.
template <typename S, LayerParts<S> Parts>
absl::Status PrepareInputBackward(Parts& parts, const SruBackwardArgs<S>& args,
                                  Destination destination) {
  const SruForwardArgs<S>& forward = args.forward;
  const bool norm = forward.shape.layer_norm == NormPlace::kBefore;
  if (forward.mask_in && (norm || args.dx)) {
    RETURN_IF_ERROR(parts.MultiplyBySequenceMask(
        forward.layout, args.dprojection_input, forward.mask_in,
        norm ? args.dprojection_input : args.dx,
        norm ? Destination::kOverwrite : destination));
  }
  if (!norm) return absl::OkStatus();
  return parts.LayerNormBackward(
      forward.x, forward.norm_statistics, forward.weights.norm_weight,
      args.dprojection_input, args.dx, destination, args.gradients.norm_weight,
      args.gradients.norm_bias);
}

}  // namespace internal

template <typename S, LayerParts<S> Parts>
absl::Status SruForward(Parts& parts, const SruForwardArgs<S>& args) {
  ShapeCheck check("SruForward");
  internal::CheckForward(check, args, IsFused<Parts, S>(args));
  RETURN_IF_ERROR(check.status());
  Matrix<const S> input;
  RETURN_IF_ERROR(internal::PrepareInput(parts, args, input));
  RETURN_IF_ERROR(internal::Reduce(parts, args, input));
  return internal::Cell(parts, args, input);
}

template <typename S, LayerParts<S> Parts>
absl::Status SruBackward(Parts& parts, const SruBackwardArgs<S>& args) {
  ShapeCheck check("SruBackward");
  internal::CheckBackward(check, args);
  RETURN_IF_ERROR(check.status());
  RETURN_IF_ERROR(internal::RecurBackward(parts, args));
  // A skip of the input has put its gradient into dx, past norm and mask.
  const Destination dx_destination = args.forward.shape.skip == SruSkip::kInput
                                         ? Destination::kAccumulate
                                         : Destination::kOverwrite;
  if (!internal::HasProjectionInput(args.forward)) {
    return internal::ProjectBackward(parts, args, args.dx, dx_destination);
  }
  RETURN_IF_ERROR(internal::ProjectBackward(parts, args, args.dprojection_input,
                                            Destination::kOverwrite));
  return internal::PrepareInputBackward(parts, args, dx_destination);
}

}  // namespace recurve::layers

#endif  // RECURVE_KERNELS_LAYERS_SRU_H_
