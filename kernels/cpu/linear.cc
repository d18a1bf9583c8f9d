#include "kernels/cpu/linear.h"

#include "kernels/cpu/column_sum.h"
#include "kernels/cpu/gemm.h"
#include "kernels/status.h"

namespace recurve::cpu {

absl::Status LinearForward(const LinearForwardArgs<float>& args) {
  const Factor weight = Transposed(args.weight);
  if (args.bias == nullptr) return MatMul(args.x, weight, args.y);
  return MatMulWithBias(args.x, weight, args.bias, args.y);
}

absl::Status LinearBackward(const LinearBackwardArgs<float>& args) {
  if (args.dbias) ColumnSums(args.dy, args.dbias);
  RETURN_IF_ERROR(MatMul(Transposed(args.dy), args.x, args.dweight));
  if (!args.dx) return absl::OkStatus();
  return MatMul(args.dy, args.weight, args.dx);
}

}  // namespace recurve::cpu
