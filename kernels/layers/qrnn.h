// A QRNN layer of any backend, from its parts: the window of rows, one product
// over all rows, the recurrence; and back. The mathematics of the recurrence is
// the backend's.
//
// Errors: InvalidArgument for shapes that contradict each other or a missing
// buffer, else what the parts return.
#ifndef RECURVE_KERNELS_LAYERS_QRNN_H_
#define RECURVE_KERNELS_LAYERS_QRNN_H_

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
void CheckForward(ShapeCheck& check, const QrnnForwardArgs<S>& args,
                  bool fused) {
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
  if (!fused) check.Required("u", args.u, n, shape.projected_cols());
  check.Optional("c", args.c, n, c);
  if (windowed) {
    check.Required("window_rows", args.window_rows, n,
                   shape.num_directions * 2 * i);
  }
}

template <typename S>
void CheckBackward(ShapeCheck& check, const QrnnBackwardArgs<S>& args) {
  const QrnnForwardArgs<S>& forward = args.forward;
  const QrnnShape& shape = forward.shape;
  const int64_t n = forward.layout.num_rows, b = forward.layout.num_sequences;
  const int64_t c = shape.channels(), i = shape.input_size;
  CheckForward(check, forward, /*fused=*/false);
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

template <typename S, LayerParts<S> Parts>
absl::Status Project(Parts& parts, const QrnnForwardArgs<S>& args) {
  const QrnnShape& shape = args.shape;
  const auto& w = args.weights.projection;
  if (shape.window == 1) {
    return parts.MatMul(Factor<S>(args.x), w, args.u, Destination::kOverwrite);
  }
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    RETURN_IF_ERROR(parts.MatMul(
        Factor<S>(WindowColumns(shape, args.window_rows, d)),
        DirectionColumns(shape, w, d), DirectionColumns(shape, args.u, d),
        Destination::kOverwrite));
  }
  return absl::OkStatus();
}

template <typename S, LayerParts<S> Parts>
absl::Status ProjectAndRecur(Parts& parts, const QrnnForwardArgs<S>& args) {
  if constexpr (HasFusedCells<Parts, S>) {
    if (IsFused<Parts, S>(args)) return parts.QrnnFused(args);
  }
  RETURN_IF_ERROR(Project(parts, args));
  return parts.QrnnRecurrence(args);
}

template <typename S, LayerParts<S> Parts>
absl::Status WeightGradient(Parts& parts, const QrnnBackwardArgs<S>& args) {
  const QrnnForwardArgs<S>& forward = args.forward;
  const QrnnShape& shape = forward.shape;
  if (shape.window == 1) {
    return parts.MatMul(Transposed(forward.x), forward.u,
                        args.gradients.projection, Destination::kOverwrite);
  }
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    RETURN_IF_ERROR(
        parts.MatMul(Transposed(WindowColumns(shape, forward.window_rows, d)),
                     DirectionColumns(shape, forward.u, d),
                     DirectionColumns(shape, args.gradients.projection, d),
                     Destination::kOverwrite));
  }
  return absl::OkStatus();
}

template <typename S, LayerParts<S> Parts>
absl::Status InputGradient(Parts& parts, const QrnnBackwardArgs<S>& args) {
  const QrnnForwardArgs<S>& forward = args.forward;
  const QrnnShape& shape = forward.shape;
  const auto& w = forward.weights.projection;
  if (shape.window == 1) {
    return parts.MatMul(Factor<S>(forward.u), Transposed(w), args.dx,
                        Destination::kOverwrite);
  }
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    RETURN_IF_ERROR(parts.MatMul(
        Factor<S>(DirectionColumns(shape, forward.u, d)),
        Transposed(DirectionColumns(shape, w, d)),
        WindowColumns(shape, args.dwindow_rows, d), Destination::kOverwrite));
  }
  return parts.GatherWindowGradient(forward.layout, args.dwindow_rows, args.dx);
}

}  // namespace internal

template <typename S, LayerParts<S> Parts>
absl::Status QrnnForward(Parts& parts, const QrnnForwardArgs<S>& args) {
  ShapeCheck check("QrnnForward");
  internal::CheckForward(check, args, IsFused<Parts, S>(args));
  RETURN_IF_ERROR(check.status());
  if (args.shape.window == 2) {
    RETURN_IF_ERROR(parts.FillWindowRows(args.layout, args.x, args.x_previous,
                                         args.window_rows));
  }
  RETURN_IF_ERROR(internal::ProjectAndRecur(parts, args));
  // After the window rows were filled: x_last may be x_previous.
  if (!args.x_last) return absl::OkStatus();
  return parts.StoreLastRows(args.layout, args.x, args.x_previous, args.x_last);
}

template <typename S, LayerParts<S> Parts>
absl::Status QrnnBackward(Parts& parts, const QrnnBackwardArgs<S>& args) {
  ShapeCheck check("QrnnBackward");
  internal::CheckBackward(check, args);
  RETURN_IF_ERROR(check.status());
  RETURN_IF_ERROR(parts.QrnnRecurrenceBackward(args));
  if (args.gradients.bias) {
    const Matrix<const float> partials = args.channel_partials;
    RETURN_IF_ERROR(parts.ColumnSums(partials, args.gradients.bias));
  }
  RETURN_IF_ERROR(internal::WeightGradient(parts, args));
  return args.dx ? internal::InputGradient(parts, args) : absl::OkStatus();
}

}  // namespace recurve::layers

#endif  // RECURVE_KERNELS_LAYERS_QRNN_H_
