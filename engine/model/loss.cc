#include "engine/model/loss.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/transfer.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Floats downloaded at a time to find arg-maxima.
constexpr int64_t kArgMaxFloats = 1 << 18;

// The first of the largest numbers.
int64_t ArgMax(const float* row, int64_t count) {
  return std::max_element(row, row + count) - row;
}

class LossPass {
 public:
  LossPass(const Model& model, const Targets& targets, const Activations& a,
           Backend& backend)
      : model_(model), targets_(targets), a_(a), backend_(backend) {}

  absl::StatusOr<LossResult> Run(bool want_gradient) {
    RETURN_IF_ERROR(CheckSizes());
    RETURN_IF_ERROR(UploadTargets());
    LossResult result;
    if (is_cross_entropy() && !want_gradient) {
      ASSIGN_OR_RETURN(result.correct, Correct());
    }
    RETURN_IF_ERROR(is_cross_entropy() ? CrossEntropy(want_gradient)
                                       : SquaredError(want_gradient));
    ASSIGN_OR_RETURN(result.loss, SumOfRows());
    for (int64_t r = 0; r < a_.output_rows; ++r) result.weight += Weight(r);
    return result;
  }

 private:
  bool is_cross_entropy() const {
    return model_.config().loss().kind() == v1::Loss::CROSS_ENTROPY;
  }
  // 0 for rows that count nothing.
  double Weight(int64_t row) const {
    if (is_cross_entropy() && targets_.classes[row] == model_.ignore_index()) {
      return 0;
    }
    return targets_.weights.empty() ? 1.0 : targets_.weights[row];
  }

  absl::Status CheckSizes() const {
    const size_t rows = a_.output_rows;
    const size_t cols = model_.output_size();
    const bool good =
        (targets_.weights.empty() || targets_.weights.size() == rows) &&
        (is_cross_entropy() ? targets_.classes.size() == rows
                            : targets_.values.size() == rows * cols);
    if (good) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "the targets do not fit the ", rows, " rows of the output"));
  }

  absl::Status UploadTargets() {
    RETURN_IF_ERROR(
        Upload<float>(backend_, a_.target_weights, targets_.weights));
    return is_cross_entropy()
               ? Upload<int32_t>(backend_, a_.target_classes, targets_.classes)
               : Upload<float>(backend_, a_.target_values.data,
                               targets_.values);
  }

  // The weight of the rows whose arg-max is the target, some rows at a time.
  absl::StatusOr<double> Correct() {
    const int64_t cols = a_.output.cols;
    const int64_t step = std::max<int64_t>(1, kArgMaxFloats / cols);
    std::vector<float> logits(std::min(step, a_.output_rows) * cols);
    double correct = 0;
    for (int64_t first = 0; first < a_.output_rows; first += step) {
      const int64_t rows = std::min(step, a_.output_rows - first);
      RETURN_IF_ERROR(Download<float>(
          backend_, absl::MakeSpan(logits).subspan(0, rows * cols),
          a_.output.row(first)));
      for (int64_t r = 0; r < rows; ++r) {
        if (ArgMax(logits.data() + r * cols, cols) ==
            targets_.classes[first + r]) {
          correct += Weight(first + r);
        }
      }
    }
    return correct;
  }

  const float* DeviceWeights() const {
    return targets_.weights.empty() ? nullptr : a_.target_weights;
  }

  absl::Status CrossEntropy(bool want_gradient) {
    CrossEntropyArgs<float> args;
    args.logits = a_.output;
    args.targets = a_.target_classes;
    args.weights = DeviceWeights();
    args.ignore_index = model_.ignore_index();
    args.want_gradient = want_gradient;
    args.row_losses = a_.row_losses;
    return backend_.CrossEntropy(args);
  }

  absl::Status SquaredError(bool want_gradient) {
    SquaredErrorArgs<float> args;
    args.predictions = a_.output;
    args.targets = a_.target_values;
    args.weights = DeviceWeights();
    args.want_gradient = want_gradient;
    args.row_losses = a_.row_losses;
    return backend_.SquaredError(args);
  }

  absl::StatusOr<double> SumOfRows() {
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

  const Model& model_;
  const Targets& targets_;
  const Activations& a_;
  Backend& backend_;
};

}  // namespace

absl::StatusOr<LossResult> ComputeLoss(const Model& model,
                                       const Targets& targets,
                                       bool want_gradient,
                                       const Activations& activations,
                                       Backend& backend) {
  if (model.config().loss().kind() == v1::Loss::KIND_UNSPECIFIED) {
    return absl::InvalidArgumentError("the model has no loss");
  }
  return LossPass(model, targets, activations, backend).Run(want_gradient);
}

}  // namespace recurve
