#include "engine/serve/evaluator.h"

#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/serve/output_selection.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Row results, filled in from several devices at once, each row by one.
struct RowLosses {
  std::vector<double> losses;
  std::vector<char> correct;
};

// What one model's loss makes of a row of its output.
class RowLoss {
 public:
  RowLoss(const Model& model, const Targets& targets)
      : is_cross_entropy_(model.config().loss().kind() ==
                          v1::Loss::CROSS_ENTROPY),
        ignore_index_(model.ignore_index()),
        targets_(targets) {}

  bool Counts(int64_t row) const {
    return !is_cross_entropy_ || targets_.classes[row] != ignore_index_;
  }
  double Weight(int64_t row) const {
    if (!Counts(row)) return 0;
    return targets_.weights.empty() ? 1.0 : targets_.weights[row];
  }
  void Compute(int64_t row, absl::Span<const float> output,
               RowLosses& results) const {
    if (Weight(row) == 0) return;
    if (is_cross_entropy_) {
      const int32_t target = targets_.classes[row];
      results.losses[row] = LogSumExp(output) - output[target];
      results.correct[row] = ArgMax(output) == target;
    } else {
      results.losses[row] = MeanSquaredError(row, output);
    }
  }

 private:
  double MeanSquaredError(int64_t row, absl::Span<const float> output) const {
    const float* target = targets_.values.data() + row * output.size();
    double sum = 0;
    for (size_t i = 0; i < output.size(); ++i) {
      const double difference = static_cast<double>(output[i]) - target[i];
      sum += difference * difference;
    }
    return sum / static_cast<double>(output.size());
  }

  const bool is_cross_entropy_;
  const int32_t ignore_index_;
  const Targets& targets_;
};

absl::StatusOr<Evaluation> Sum(const RowLoss& row_loss,
                               const RowLosses& results, int64_t rows) {
  Evaluation evaluation;
  evaluation.rows = rows;
  double loss = 0, correct = 0;
  for (size_t row = 0; row < results.losses.size(); ++row) {
    const double weight = row_loss.Weight(static_cast<int64_t>(row));
    if (weight == 0) continue;
    if (!std::isfinite(results.losses[row])) {
      return absl::FailedPreconditionError(
          absl::StrCat("the loss of row ", row, " is not finite"));
    }
    loss += weight * results.losses[row];
    correct += weight * results.correct[row];
    evaluation.weight += weight;
  }
  if (evaluation.weight == 0) {
    return absl::InvalidArgumentError(
        "no row counts: every target is ignored or has weight 0");
  }
  evaluation.loss = loss / evaluation.weight;
  evaluation.accuracy = correct / evaluation.weight;
  return evaluation;
}

// One sequence of `rows` rows, or many of at most chunk_rows.
std::vector<int64_t> TextOffsets(int64_t rows, const TextOptions& options) {
  const int64_t chunk_rows = options.carry_state ? 0 : options.chunk_rows;
  std::vector<int64_t> offsets = {0};
  while (chunk_rows > 0 && rows - offsets.back() > chunk_rows) {
    offsets.push_back(offsets.back() + chunk_rows);
  }
  offsets.push_back(rows);
  return offsets;
}

// A sequence's last row predicts nothing: its weight is 0.
Targets NextTokenTargets(const SequenceBatch& batch) {
  Targets targets;
  targets.classes.assign(batch.tokens.begin() + 1, batch.tokens.end());
  targets.classes.push_back(0);
  targets.weights.assign(batch.tokens.size(), 1.0f);
  for (size_t b = 1; b < batch.cu_seqlens.size(); ++b) {
    targets.weights[batch.cu_seqlens[b] - 1] = 0;
  }
  return targets;
}

}  // namespace

absl::StatusOr<Evaluation> Evaluator::EvaluateBatch(
    const ModelHandle& version, const SequenceBatch& batch,
    const Targets* targets, const CallControl& control) const {
  if (targets != nullptr) {
    return Evaluate(version, batch, *targets, /*call_rows=*/0, control);
  }
  RETURN_IF_ERROR(
      version->model->CheckBatch(batch, /*allow_empty_sequences=*/false));
  if (batch.tokens.empty()) {
    return absl::InvalidArgumentError(
        "targets: are needed for a model that takes features");
  }
  return Evaluate(version, batch, NextTokenTargets(batch), /*call_rows=*/0,
                  control);
}

absl::StatusOr<Evaluation> Evaluator::EvaluateText(
    const ModelHandle& version, absl::Span<const int32_t> tokens,
    const TextOptions& options, const CallControl& control) const {
  if (tokens.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", tokens.size(),
                     " tokens; to predict one, it takes at least 2"));
  }
  if (options.chunk_rows < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk_rows: is ", options.chunk_rows, ", must be 0 or more"));
  }
  if (options.carry_state && version->model->bidirectional()) {
    return absl::FailedPreconditionError(
        "carry_state: the model is bidirectional and has no state to carry");
  }
  const int64_t rows = static_cast<int64_t>(tokens.size()) - 1;
  SequenceBatch batch;
  batch.cu_seqlens = TextOffsets(rows, options);
  batch.tokens.assign(tokens.begin(), tokens.end() - 1);
  Targets targets;
  targets.classes.assign(tokens.begin() + 1, tokens.end());
  return Evaluate(version, batch, targets,
                  options.carry_state ? options.chunk_rows : 0, control);
}

absl::StatusOr<Evaluation> Evaluator::EvaluateDataset(
    const ModelHandle& version, const Dataset& dataset,
    const TextOptions& options, const CallControl& control) const {
  RETURN_IF_ERROR(CheckDataset(dataset, *version->model));
  if (const auto* text = std::get_if<TextDataset>(&dataset)) {
    return EvaluateText(version, text->tokens, options, control);
  }
  if (options.chunk_rows != 0 || options.carry_state) {
    return absl::InvalidArgumentError(
        "chunk_rows, carry_state: are for text; the sequences of this dataset "
        "are evaluated whole");
  }
  const auto& sequences = std::get<SequenceDataset>(dataset);
  return EvaluateBatch(version, sequences.sequences, &sequences.targets,
                       control);
}

std::vector<MemoryPlan> Evaluator::PassMemories(
    const Model& model, const Dataset& dataset,
    const TextOptions& options) const {
  if (const auto* text = std::get_if<TextDataset>(&dataset)) {
    const int64_t rows = static_cast<int64_t>(text->tokens.size()) - 1;
    return runner_.PassMemories(model, TextOffsets(rows, options));
  }
  return runner_.PassMemories(
      model, std::get<SequenceDataset>(dataset).sequences.cu_seqlens);
}

absl::Status Evaluator::Check(const Model& model, const SequenceBatch& batch,
                              const Targets& targets) const {
  if (model.config().loss().kind() == v1::Loss::KIND_UNSPECIFIED) {
    return absl::FailedPreconditionError("the model's config has no loss");
  }
  RETURN_IF_ERROR(model.CheckBatch(batch, /*allow_empty_sequences=*/false));
  RETURN_IF_ERROR(model.CheckTargets(batch, targets));
  if (batch.num_rows() <= options_.max_rows) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the data have ", batch.num_rows(),
      " rows, the limit of one evaluation is ", options_.max_rows));
}

absl::StatusOr<Evaluation> Evaluator::Evaluate(
    const ModelHandle& version, const SequenceBatch& batch,
    const Targets& targets, int64_t call_rows,
    const CallControl& control) const {
  const Model& model = *version->model;
  RETURN_IF_ERROR(Check(model, batch, targets));
  const int64_t rows = model.pools() ? batch.num_sequences() : batch.num_rows();
  const RowLoss row_loss(model, targets);
  RowLosses results{std::vector<double>(rows), std::vector<char>(rows)};

  BatchRun run;
  run.version = version;
  run.batch = batch;
  run.call_rows = call_rows;
  run.control = control;
  run.memory = options_.memory;
  run.consume = [&](const ChunkRows& chunk) {
    for (int64_t r = 0; r < chunk.output.rows; ++r) {
      row_loss.Compute(
          chunk.first_output_row + r,
          absl::MakeConstSpan(chunk.output.row(r), chunk.output.cols), results);
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(runner_.RunAndWait(std::move(run)).status());
  return Sum(row_loss, results, batch.num_rows());
}

}  // namespace recurve
