#include "server/kserve/output_tensors.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/status.h"
#include "server/kserve/classification.h"
#include "server/kserve/datatype.h"
#include "server/kserve/padded_batch.h"

namespace recurve::server::kserve {
namespace {

using OutputTensor = inference::ModelInferResponse::InferOutputTensor;

// The bytes of all rows; every number has four.
template <typename T>
absl::Span<const char> BytesOf(const std::vector<T>& numbers) {
  static_assert(sizeof(T) == 4);
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4};
}

absl::Span<const char> RowsOf(const Prediction& prediction, OutputKind kind) {
  switch (kind) {
    case OutputKind::kLogits:
      return BytesOf(prediction.logits);
    case OutputKind::kProbabilities:
      return BytesOf(prediction.probabilities);
    case OutputKind::kClasses:
      return BytesOf(prediction.classes);
    case OutputKind::kTopClasses:
      return BytesOf(prediction.top_classes);
    case OutputKind::kTopProbabilities:
      return BytesOf(prediction.top_probabilities);
    case OutputKind::kHidden:
      return BytesOf(prediction.hidden);
  }
  return {};
}

// One row a step, so that there is padding; else one a sequence.
bool HasSteps(const RequestedOutput& output) {
  return output.output.tensor.shape.front() < 0;
}

std::string Numbers(const RequestedOutput& output, const Prediction& prediction,
                    const BatchLayout& layout) {
  const absl::Span<const char> rows = RowsOf(prediction, output.output.kind);
  if (!HasSteps(output)) return std::string(rows.data(), rows.size());
  const int64_t row_bytes =
      static_cast<int64_t>(rows.size()) / layout.cu_seqlens.back();
  return PadRows(rows, row_bytes, layout.cu_seqlens, layout.steps);
}

// What classes are called, if the model says so: those of a model that
// predicts tokens.
absl::Span<const std::string> LabelsOf(const ModelVersion& version) {
  const Model& model = *version.model;
  const bool predicts_tokens =
      model.takes_tokens() && !model.pools() &&
      static_cast<int64_t>(version.vocabulary.size()) == model.output_size();
  if (!predicts_tokens) return {};
  return version.vocabulary;
}

absl::StatusOr<std::string> Classification(const RequestedOutput& output,
                                           const Prediction& prediction,
                                           const BatchLayout& layout) {
  const std::vector<float>& numbers = output.output.kind == OutputKind::kLogits
                                          ? prediction.logits
                                          : prediction.probabilities;
  for (const float number : numbers) {
    if (!std::isnan(number)) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "output ", output.output.tensor.name, ": has a number that is NaN"));
  }
  const auto labels = LabelsOf(*prediction.version);
  const int64_t columns = prediction.columns;
  std::string bytes;
  for (int64_t b = 0; b < layout.batch(); ++b) {
    const bool steps = HasSteps(output);
    const int64_t begin = steps ? layout.cu_seqlens[b] : b;
    const int64_t end = steps ? layout.cu_seqlens[b + 1] : b + 1;
    for (int64_t r = begin; r < end; ++r) {
      AppendClassification(
          absl::MakeConstSpan(numbers).subspan(r * columns, columns),
          output.classification, labels, &bytes);
    }
    const int64_t padding = steps ? layout.steps - (end - begin) : 0;
    AppendNoClassification(padding * output.classification, &bytes);
  }
  return bytes;
}

void Describe(const RequestedOutput& output, const BatchLayout& layout,
              OutputTensor& tensor) {
  tensor.set_name(output.output.tensor.name);
  tensor.set_datatype(
      output.classification > 0
          ? "BYTES"
          : std::string(DatatypeName(output.output.tensor.dtype)));
  const std::vector<int64_t> shape =
      BatchShape(output, layout.batch(), layout.steps);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
}

// Says where the tensor is, to whom reads the response.
void DescribePlace(const TensorPlace& place, size_t size,
                   OutputTensor& tensor) {
  auto& parameters = *tensor.mutable_parameters();
  parameters["shared_memory_region"].set_string_param(place.region->name());
  parameters["shared_memory_offset"].set_int64_param(
      static_cast<int64_t>(place.offset));
  parameters["shared_memory_byte_size"].set_int64_param(
      static_cast<int64_t>(size));
}

}  // namespace

absl::Status WriteOutputs(const std::vector<RequestedOutput>& outputs,
                          const Prediction& prediction,
                          const BatchLayout& layout,
                          inference::ModelInferResponse* response) {
  for (const RequestedOutput& output : outputs) {
    OutputTensor& tensor = *response->add_outputs();
    Describe(output, layout, tensor);
    std::string* const raw = response->add_raw_output_contents();
    if (output.classification > 0) {
      ASSIGN_OR_RETURN(*raw, Classification(output, prediction, layout));
      continue;
    }
    std::string numbers = Numbers(output, prediction, layout);
    if (!output.place.has_value()) {
      *raw = std::move(numbers);
      continue;
    }
    RETURN_IF_ERROR(output.place->Write(numbers));
    DescribePlace(*output.place, numbers.size(), tensor);
  }
  return absl::OkStatus();
}

}  // namespace recurve::server::kserve
