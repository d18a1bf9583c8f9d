// What a backend brings to have whole layers: products, recurrences and the few
// operations on rows between them. The order in which a layer uses them is
// written once for all backends (sru.h, qrnn.h, linear.h).
//
// Parts get arguments whose shapes were checked. They work in the order in
// which they are called and may return before they are done. Their errors are
// those of the device.
#ifndef RECURVE_KERNELS_LAYERS_PARTS_H_
#define RECURVE_KERNELS_LAYERS_PARTS_H_

#include <concepts>

#include "absl/status/status.h"
#include "kernels/cell_args.h"
#include "kernels/product.h"
#include "kernels/tensor.h"

namespace recurve::layers {

template <typename Result>
concept IsStatus = std::same_as<Result, absl::Status>;

// c = a b, c += a b or, with kContinue, sums of more terms; and c = a b + bias
// [c.cols]. c may be of S or of float (gradients of weights). Any dimension may
// be 0.
template <typename Parts, typename S>
concept HasProducts = requires(Parts parts, Factor<S> a, Factor<S> b,
                               Matrix<S> c, Matrix<float> gradient,
                               const float* bias) {
  { parts.MatMul(a, b, c, Destination::kAccumulate) } -> IsStatus;
  { parts.MatMul(a, b, gradient, Destination::kOverwrite) } -> IsStatus;
  { parts.MatMulWithBias(a, b, bias, c) } -> IsStatus;
};

// The operations on rows.
//
// LayerNormForward: x^ = (x - mean) * inverse_stddev, y = x^ * weight + bias,
// with the biased variance and kLayerNormEpsilon. y may be x; statistics
// [rows, 2] gets mean and inverse_stddev, and may be absent.
//
// LayerNormBackward: from the x and statistics of the forward pass. dx may be
// absent, or be dy (not with kAccumulate); dweight and dbias are overwritten,
// each may be null.
//
// MultiplyBySequenceMask: y[r] = x[r] * mask[b] or y[r] += ..., b the sequence
// of row r; y may be x.
//
// ColumnSums: sums[j] = sum over rows of m[r][j], in an order that depends on
// the shape alone; overwritten unless a destination, kOverwrite or kContinue,
// is given.
//
// FillWindowRows: [N, D*2*I] from x [N, I]; for direction d the row itself
// beside the one before it in that direction's time; before the first row of
// direction 0 stands x_previous [B, I], zeros where it or a row is absent.
//
// GatherWindowGradient: dx [N, I], overwritten, gathers from dwindow_rows what
// each row of x was copied to.
//
// StoreLastRows: x_last [B, I], each sequence's last row; x_previous, or zeros,
// for a sequence without rows. x_last may be x_previous.
template <typename Parts, typename S>
concept HasRowOperations = requires(Parts parts, SequenceLayout layout,
                                    Matrix<const S> x, Matrix<S> y,
                                    Matrix<const float> mask,
                                    Matrix<float> state, const float* weight,
                                    float* gradient, Destination destination) {
  { parts.LayerNormForward(x, weight, weight, y, state) } -> IsStatus;
  {
    parts.LayerNormBackward(x, mask, weight, x, y, destination, gradient,
                            gradient)
    } -> IsStatus;
  { parts.MultiplyBySequenceMask(layout, x, mask, y, destination) } -> IsStatus;
  { parts.ColumnSums(x, gradient) } -> IsStatus;
  { parts.ColumnSums(mask, gradient) } -> IsStatus;
  { parts.ColumnSums(x, gradient, destination) } -> IsStatus;
  { parts.FillWindowRows(layout, x, mask, y) } -> IsStatus;
  { parts.GatherWindowGradient(layout, x, y) } -> IsStatus;
  { parts.StoreLastRows(layout, x, mask, state) } -> IsStatus;
};

// The recurrences along time, from u (the projections) on.
//
//   SruRecurrence reads args.u, x (skips of the input), v, bias, mask_cell and
//   c_first, writes y (given apart: args.norm_input before a post-norm),
//   args.c and args.c_last.
//   SruRecurrenceBackward reads dy (given apart, past any post-norm) and
//   args.dc_last; overwrites args.forward.u by its gradient, writes
//   args.dc_first, args.channel_partials (sums over each sequence's rows, not
//   over sequences) and, for a skip of the input, its share of args.dx.
//   QrnnRecurrence and QrnnRecurrenceBackward: likewise, from args.y, args.dy.
template <typename Parts, typename S>
concept HasRecurrences = requires(Parts parts, SruForwardArgs<S> sru,
                                  SruBackwardArgs<S> sru_backward,
                                  QrnnForwardArgs<S> qrnn,
                                  QrnnBackwardArgs<S> qrnn_backward,
                                  Matrix<S> y, Matrix<const S> dy) {
  { parts.SruRecurrence(sru, y) } -> IsStatus;
  { parts.SruRecurrenceBackward(sru_backward, dy) } -> IsStatus;
  { parts.QrnnRecurrence(qrnn) } -> IsStatus;
  { parts.QrnnRecurrenceBackward(qrnn_backward) } -> IsStatus;
};

// What a backend may bring to do projection and recurrence at once, at
// inference with packed weights: args.u is then absent.
//
//   SruFused reads `input` (the rows that the projection multiplies) and all
//   that SruRecurrence reads but args.u, writes the same.
//   QrnnFused: likewise; its input is args.x, or args.window_rows.
template <typename Parts, typename S>
concept HasFusedCells = requires(Parts parts, SruForwardArgs<S> sru,
                                 QrnnForwardArgs<S> qrnn, Matrix<const S> input,
                                 Matrix<S> y) {
  { parts.SruFused(sru, input, y) } -> IsStatus;
  { parts.QrnnFused(qrnn) } -> IsStatus;
};

// Whether a forward pass of `args` is one of those.
template <typename Parts, typename S, typename Args>
constexpr bool IsFused(const Args& args) {
  return HasFusedCells<Parts, S> && args.weights.packed && !args.c;
}

template <typename Parts, typename S>
concept LayerParts = HasProducts<Parts, S> && HasRowOperations<Parts, S> &&
    HasRecurrences<Parts, S>;

}  // namespace recurve::layers

#endif  // RECURVE_KERNELS_LAYERS_PARTS_H_
