#include "engine/model/output.h"

#include <algorithm>

#include "kernels/status.h"

namespace recurve {

absl::Status ComputeOutput(const PassContext& context, int64_t first,
                           Matrix<float> y) {
  LinearForwardArgs<float> args;
  args.x = context.activations.features().row_range(first, y.rows);
  args.weight = MatrixView(context.weights, context.parameters.output_weight);
  args.bias = VectorView(context.weights, context.parameters.output_bias);
  args.y = y;
  return context.backend.LinearForward(args);
}

absl::Status ForEachOutputTile(
    const PassContext& context,
    absl::FunctionRef<absl::Status(int64_t first, Matrix<float> tile)> use) {
  const Activations& a = context.activations;
  if (a.output) return use(0, a.output);
  int64_t first = 0;
  do {
    const int64_t rows = std::min(a.output_tile.rows, a.output_rows - first);
    const Matrix<float> tile = a.output_tile.row_range(0, rows);
    RETURN_IF_ERROR(ComputeOutput(context, first, tile));
    RETURN_IF_ERROR(use(first, tile));
    first += rows;
  } while (first < a.output_rows);
  return absl::OkStatus();
}

}  // namespace recurve
