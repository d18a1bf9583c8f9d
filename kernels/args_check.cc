#include "kernels/args_check.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/mask_stream.h"
#include "kernels/shape_check.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status CheckEmbedding(absl::string_view operation, const int32_t* tokens,
                            int64_t rows, int64_t cols, int64_t table_cols) {
  if (cols != table_cols || (rows > 0 && tokens == nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat(
        operation, ": ", rows, " rows of ", cols, " columns, a table of ",
        table_cols, " columns", tokens == nullptr ? ", no tokens" : ""));
  }
  return absl::OkStatus();
}

absl::Status CheckPool(absl::string_view operation,
                       const SequenceLayout& layout,
                       const Matrix<const float>& rows,
                       const Matrix<const float>& pooled) {
  if (rows.rows != layout.num_rows || pooled.rows != layout.num_sequences ||
      rows.cols != pooled.cols) {
    return absl::InvalidArgumentError(absl::StrCat(
        operation, ": ", layout.num_sequences, " sequences of ",
        layout.num_rows, " rows, but [", rows.rows, ", ", rows.cols,
        "] pooled to [", pooled.rows, ", ", pooled.cols, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckArgmax(absl::string_view operation,
                         const PoolArgs<float>& args, int64_t channels) {
  if (args.argmax.rows != args.layout.num_sequences ||
      args.argmax.cols != channels) {
    return absl::InvalidArgumentError(
        absl::StrCat(operation, ": argmax [", args.argmax.rows, ", ",
                     args.argmax.cols, "] for ", args.layout.num_sequences,
                     " sequences of ", channels, " channels"));
  }
  return absl::OkStatus();
}

absl::Status CheckPoolCarry(const PoolArgs<float>& args) {
  const PoolCarry& carry = args.carry;
  const int64_t b = args.y.rows, c = args.y.cols;
  ShapeCheck check("PoolForward");
  check.That(args.kind != PoolKind::kLast, "kind kMean or kMax with a carry")
      .That(!args.argmax, "a carry without argmax")
      .Required("carry.rows", carry.rows, b, 1);
  if (args.kind == PoolKind::kMean) {
    check.Required("carry.sums", carry.sums, b, c);
  } else {
    check.Required("carry.maxima", carry.maxima, b, c);
  }
  return check.status();
}

absl::Status Missing(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("Update: no ", what));
}

}  // namespace

absl::Status CheckEmbeddingForward(const EmbeddingForwardArgs<float>& args) {
  return CheckEmbedding("EmbeddingForward", args.tokens, args.y.rows,
                        args.y.cols, args.table.cols);
}

absl::Status CheckEmbeddingBackward(const EmbeddingBackwardArgs<float>& args) {
  return CheckEmbedding("EmbeddingBackward", args.tokens, args.dy.rows,
                        args.dy.cols, args.dtable.cols);
}

absl::Status CheckPoolForward(const PoolArgs<float>& args) {
  RETURN_IF_ERROR(CheckPool("PoolForward", args.layout, args.x, args.y));
  if (args.carry) return CheckPoolCarry(args);
  if (args.kind != PoolKind::kMax || !args.argmax) return absl::OkStatus();
  return CheckArgmax("PoolForward", args, args.y.cols);
}

absl::Status CheckPoolBackward(const PoolArgs<float>& args) {
  RETURN_IF_ERROR(CheckPool("PoolBackward", args.layout, args.dx, args.dy));
  if (args.kind != PoolKind::kMax) return absl::OkStatus();
  return CheckArgmax("PoolBackward", args, args.dy.cols);
}

absl::Status CheckCopyRows(const CopyRowsArgs& args) {
  ShapeCheck check("CopyRows");
  check.That(args.count >= 0, "count >= 0");
  if (args.count == 0) return check.status();
  check.Required("from_rows", args.from_rows)
      .Required("to_rows", args.to_rows)
      .Required("from", args.from, args.from.rows, args.to.cols)
      .Required("to", args.to, args.to.rows, args.from.cols);
  return check.status();
}

absl::Status CheckCrossEntropy(const CrossEntropyArgs<float>& args) {
  const Matrix<float>& logits = args.logits;
  if (logits.rows == 0) return absl::OkStatus();
  if (args.targets == nullptr || args.row_losses == nullptr ||
      logits.cols == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("CrossEntropy: logits [", logits.rows, ", ", logits.cols,
                     "] need columns, targets and row_losses"));
  }
  return absl::OkStatus();
}

absl::Status CheckSquaredError(const SquaredErrorArgs<float>& args) {
  const Matrix<float>& predictions = args.predictions;
  if (predictions.rows != args.targets.rows ||
      predictions.cols != args.targets.cols) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SquaredError: predictions [", predictions.rows, ", ", predictions.cols,
        "], targets [", args.targets.rows, ", ", args.targets.cols, "]"));
  }
  if (predictions.rows == 0) return absl::OkStatus();
  if (args.row_losses == nullptr || predictions.cols == 0) {
    return absl::InvalidArgumentError(
        "SquaredError: no columns or no row_losses");
  }
  return absl::OkStatus();
}

absl::Status CheckMask(const MaskArgs& args) {
  const int64_t rows =
      args.variational ? args.layout.num_sequences : args.layout.num_rows;
  if (args.mask.rows != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "FillMask: the mask has ", args.mask.rows, " rows, not ", rows));
  }
  if (!(args.keep_probability >= 0.0f && args.keep_probability <= 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat("FillMask: keep_probability is ", args.keep_probability));
  }
  constexpr int64_t kWord = int64_t{1} << 32;
  if (args.first_sequence < 0 ||
      args.first_sequence + args.layout.num_sequences > kWord ||
      args.mask.cols > kChannelsPerCounter * kWord) {
    return absl::InvalidArgumentError(
        absl::StrCat("FillMask: sequence ", args.first_sequence, " + ",
                     args.layout.num_sequences, " or channel ", args.mask.cols,
                     " is beyond the counter"));
  }
  return absl::OkStatus();
}

absl::Status CheckUpdate(const OptimizerArgs& args) {
  if (args.count < 0 || args.step < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Update: count is ", args.count, ", step is ", args.step));
  }
  if (args.count == 0) return absl::OkStatus();
  if (args.parameters == nullptr) return Missing("parameters");
  if (args.gradients == nullptr) return Missing("gradients");
  const bool adam = args.kind != OptimizerKind::kSgd;
  if ((adam || args.momentum != 0.0f) && args.first_moment == nullptr) {
    return Missing("first moment");
  }
  if (adam && args.second_moment == nullptr) return Missing("second moment");
  return absl::OkStatus();
}

absl::Status CheckMultiply(const Matrix<const float>& x,
                           const Matrix<const float>& mask) {
  if (x.rows != mask.rows || x.cols != mask.cols) {
    return absl::InvalidArgumentError(
        absl::StrCat("Multiply: x [", x.rows, ", ", x.cols, "], mask [",
                     mask.rows, ", ", mask.cols, "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckCount(absl::string_view operation, int64_t count) {
  if (count >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": count is ", count));
}

}  // namespace recurve
