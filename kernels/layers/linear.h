// The linear layer of any backend, from its parts: y = x W^T + b,
// torch.nn.Linear's layout.
//
// Errors: InvalidArgument for shapes that contradict each other or a missing
// buffer, else what the parts return.
#ifndef RECURVE_KERNELS_LAYERS_LINEAR_H_
#define RECURVE_KERNELS_LAYERS_LINEAR_H_

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
void CheckForward(ShapeCheck& check, const LinearForwardArgs<S>& args) {
  const int64_t n = args.x.rows, i = args.x.cols, o = args.weight.rows;
  check.Required("x", args.x, n, i).Required("weight", args.weight, o, i);
  check.Required("y", args.y, n, o);
}

template <typename S>
void CheckBackward(ShapeCheck& check, const LinearBackwardArgs<S>& args) {
  const int64_t n = args.x.rows, i = args.x.cols, o = args.weight.rows;
  check.Required("x", args.x, n, i).Required("weight", args.weight, o, i);
  check.Required("dy", args.dy, n, o).Optional("dx", args.dx, n, i);
  check.Required("dweight", args.dweight, o, i);
}

}  // namespace internal

template <typename S, LayerParts<S> Parts>
absl::Status LinearForward(Parts& parts, const LinearForwardArgs<S>& args) {
  ShapeCheck check("LinearForward");
  internal::CheckForward(check, args);
  RETURN_IF_ERROR(check.status());
  const Factor<S> x = args.x, weight = Transposed(args.weight);
  if (args.bias == nullptr) {
    return parts.MatMul(x, weight, args.y, Destination::kOverwrite);
  }
  return parts.MatMulWithBias(x, weight, args.bias, args.y);
}

template <typename S, LayerParts<S> Parts>
absl::Status LinearBackward(Parts& parts, const LinearBackwardArgs<S>& args) {
  ShapeCheck check("LinearBackward");
  internal::CheckBackward(check, args);
  RETURN_IF_ERROR(check.status());
  const Destination sums =
      args.continues ? Destination::kContinue : Destination::kOverwrite;
  if (args.dbias) RETURN_IF_ERROR(parts.ColumnSums(args.dy, args.dbias, sums));
  RETURN_IF_ERROR(
      parts.MatMul(Transposed(args.dy), args.x, args.dweight, sums));
  if (!args.dx) return absl::OkStatus();
  return parts.MatMul(Factor<S>(args.dy), args.weight, args.dx,
                      Destination::kOverwrite);
}

}  // namespace recurve::layers

#endif  // RECURVE_KERNELS_LAYERS_LINEAR_H_
