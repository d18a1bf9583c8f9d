#include "server/kserve/padded_batch.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/status.h"
#include "server/kserve/datatype.h"
#include "server/kserve/model_tensors.h"

namespace recurve::server::kserve {
namespace {

// --- The inputs that a model has ---

std::string Described(const ModelTensor& tensor) {
  return absl::StrCat(
      tensor.name, " ",
      tensor.dtype == DType::kI32 ? "INT32 or INT64" : "FP32, FP16 or BF16",
      " [B, ",
      absl::StrJoin(tensor.shape, ", ",
                    [](std::string* out, int64_t s) {
                      absl::StrAppend(out, s < 0 ? "T" : absl::StrCat(s));
                    }),
      tensor.optional ? "] (may be left out)" : "]");
}

absl::Status Unexpected(const Model& model, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      what, "; the model's inputs are ",
      absl::StrJoin(InputsOf(model), ", ",
                    [](std::string* out, const ModelTensor& tensor) {
                      absl::StrAppend(out, Described(tensor));
                    })));
}

bool Takes(const ModelTensor& tensor, DType dtype) {
  return tensor.dtype == DType::kI32
             ? dtype == DType::kI32 || dtype == DType::kI64
             : dtype == DType::kF32 || dtype == DType::kF16 ||
                   dtype == DType::kBF16;
}

absl::Status CheckInput(const Model& model, const std::string& name,
                        DType dtype) {
  for (const ModelTensor& known : InputsOf(model)) {
    if (known.name != name) continue;
    if (Takes(known, dtype)) return absl::OkStatus();
    return Unexpected(model, absl::StrCat("input ", name, ": has datatype ",
                                          DatatypeName(dtype)));
  }
  return Unexpected(model,
                    absl::StrCat("input ", QuotedName(name), ": is unknown"));
}

absl::StatusOr<const TensorView*> FindRows(const Model& model,
                                           const InputTensors& inputs) {
  const ModelTensor expected = InputsOf(model).front();
  const auto found = inputs.find(expected.name);
  if (found == inputs.end()) {
    return Unexpected(model,
                      absl::StrCat("input ", expected.name, ": is missing"));
  }
  const TensorView& rows = found->second.view;
  const bool rank = rows.shape.size() == expected.shape.size() + 1;
  const bool columns = rank && (expected.shape.size() == 1 ||
                                rows.shape[2] == expected.shape[1]);
  if (!columns || rows.shape[0] < 1 || rows.shape[1] < 1) {
    return Unexpected(model,
                      absl::StrCat("input ", expected.name, ": has shape ",
                                   ShapeString(rows.shape)));
  }
  return &rows;
}

// --- Lengths ---

absl::Status CheckLength(int64_t sequence, int64_t length, int64_t steps) {
  if (length >= 1 && length <= steps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input lengths: that of sequence ", sequence, " is ", length,
                   ", must be 1 to ", steps, ", the steps of the batch"));
}

absl::StatusOr<std::vector<int64_t>> Lengths(const Model& model,
                                             const InputTensors& inputs,
                                             int64_t batch, int64_t steps) {
  const auto found = inputs.find("lengths");
  if (found == inputs.end()) return std::vector<int64_t>(batch, steps);
  const TensorView& view = found->second.view;
  const bool flat = view.shape == std::vector<int64_t>{batch};
  const bool column = view.shape == std::vector<int64_t>{batch, 1};
  if (!flat && !column) {
    return Unexpected(model,
                      absl::StrCat("input lengths: has shape ",
                                   ShapeString(view.shape), ", B is ", batch));
  }
  ASSIGN_OR_RETURN(std::vector<int64_t> lengths, ToIntegers("lengths", view));
  for (int64_t b = 0; b < batch; ++b) {
    RETURN_IF_ERROR(CheckLength(b, lengths[b], steps));
  }
  return lengths;
}

// --- Rows ---

absl::StatusOr<std::vector<int32_t>> TokensOf(const TensorView& view) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> wide, ToIntegers("tokens", view));
  for (size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] == static_cast<int32_t>(wide[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input tokens: element ", i, " is ", wide[i], ", no token id"));
  }
  return std::vector<int32_t>(wide.begin(), wide.end());
}

// The first `lengths[b]` of the `steps` rows of each sequence.
template <typename T>
std::vector<T> Pack(std::vector<T> padded, int64_t columns,
                    const SequenceBatch& batch, int64_t steps) {
  if (static_cast<int64_t>(padded.size()) == batch.num_rows() * columns) {
    return padded;
  }
  std::vector<T> packed(batch.num_rows() * columns);
  for (int64_t b = 0; b < batch.num_sequences(); ++b) {
    const int64_t begin = batch.cu_seqlens[b], end = batch.cu_seqlens[b + 1];
    std::copy_n(padded.begin() + b * steps * columns, (end - begin) * columns,
                packed.begin() + begin * columns);
  }
  return packed;
}

}  // namespace

absl::StatusOr<PaddedBatch> PackBatch(const Model& model,
                                      const InputTensors& inputs) {
  for (const auto& [name, input] : inputs) {
    RETURN_IF_ERROR(CheckInput(model, name, input.view.dtype));
  }
  ASSIGN_OR_RETURN(const TensorView* const rows, FindRows(model, inputs));
  PaddedBatch batch;
  batch.steps = rows->shape[1];
  ASSIGN_OR_RETURN(const std::vector<int64_t> lengths,
                   Lengths(model, inputs, rows->shape[0], batch.steps));
  SequenceBatch& packed = batch.packed;
  for (const int64_t length : lengths) {
    packed.cu_seqlens.push_back(packed.num_rows() + length);
  }
  if (model.takes_tokens()) {
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, TokensOf(*rows));
    packed.tokens = Pack(std::move(tokens), 1, packed, batch.steps);
  } else {
    ASSIGN_OR_RETURN(std::vector<float> features, ToFloats("features", *rows));
    packed.features =
        Pack(std::move(features), model.feature_size(), packed, batch.steps);
  }
  return batch;
}

std::string PadRows(absl::Span<const char> rows, int64_t row_bytes,
                    absl::Span<const int64_t> cu_seqlens, int64_t steps) {
  const int64_t sequence_bytes = steps * row_bytes;
  std::string padded((cu_seqlens.size() - 1) * sequence_bytes, '\0');
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b) {
    std::copy(rows.data() + cu_seqlens[b] * row_bytes,
              rows.data() + cu_seqlens[b + 1] * row_bytes,
              padded.data() + b * sequence_bytes);
  }
  return padded;
}

}  // namespace recurve::server::kserve
