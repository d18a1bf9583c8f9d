#include "engine/model/loss.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/model/transfer.h"
#include "kernels/status.h"

namespace recurve {

bool LossPass::is_cross_entropy() const {
  return model_.config().loss().kind() == v1::Loss::CROSS_ENTROPY;
}

// 0 for rows that count nothing.
double LossPass::Weight(int64_t row) const {
  if (is_cross_entropy() && targets_.classes[row] == model_.ignore_index()) {
    return 0;
  }
  return has_weights() ? targets_.weights[row] : 1.0;
}

absl::Status LossPass::CheckSizes() const {
  const size_t rows = a_.output_rows;
  const size_t cols = model_.output_size();
  const bool good =
      (!has_weights() || targets_.weights.size() == rows) &&
      (is_cross_entropy() ? targets_.classes.size() == rows
                          : targets_.values.size() == rows * cols);
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the targets do not fit the ", rows, " rows of the output"));
}

absl::Status LossPass::Upload() const {
  if (model_.config().loss().kind() == v1::Loss::KIND_UNSPECIFIED) {
    return absl::InvalidArgumentError("the model has no loss");
  }
  RETURN_IF_ERROR(CheckSizes());
  RETURN_IF_ERROR(
      recurve::Upload<float>(backend_, a_.target_weights, targets_.weights));
  return is_cross_entropy()
             ? recurve::Upload<int32_t>(backend_, a_.target_classes,
                                        targets_.classes)
             : recurve::Upload<float>(backend_, a_.target_values.data,
                                      targets_.values);
}

absl::Status LossPass::OfRows(int64_t first, Matrix<float> rows,
                              bool want_gradient) const {
  const float* const weights =
      has_weights() ? a_.target_weights + first : nullptr;
  if (is_cross_entropy()) {
    CrossEntropyArgs<float> args;
    args.logits = rows;
    args.targets = a_.target_classes + first;
    args.weights = weights;
    args.ignore_index = model_.ignore_index();
    args.want_gradient = want_gradient;
    args.row_losses = a_.row_losses + first;
    return backend_.CrossEntropy(args);
  }
  SquaredErrorArgs<float> args;
  args.predictions = rows;
  args.targets = a_.target_values.row_range(first, rows.rows);
  args.weights = weights;
  args.want_gradient = want_gradient;
  args.row_losses = a_.row_losses + first;
  return backend_.SquaredError(args);
}

absl::StatusOr<LossResult> LossPass::Result() const {
  LossResult result;
  ASSIGN_OR_RETURN(result.loss, SumOfRows());
  for (int64_t r = 0; r < a_.output_rows; ++r) result.weight += Weight(r);
  return result;
}

absl::StatusOr<double> LossPass::SumOfRows() const {
  std::array<float, 4096> losses;
  const int64_t together = losses.size();
  double sum = 0;
  for (int64_t first = 0; first < a_.output_rows; first += together) {
    const auto part = absl::MakeSpan(losses).subspan(
        0, std::min(together, a_.output_rows - first));
    RETURN_IF_ERROR(Download<float>(backend_, part, a_.row_losses + first));
    for (const float loss : part) sum += loss;
  }
  return sum;
}

}  // namespace recurve
