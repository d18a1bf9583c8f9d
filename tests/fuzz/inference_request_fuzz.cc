// A request of the Open Inference Protocol: what is decoded is a batch that the
// model takes, and every output has the bytes that its shape says.

#include <cstddef>
#include <cstdint>

#include "proto/inference/inference.pb.h"
#include "server/kserve/decode.h"
#include "server/kserve/decode_test_util.h"
#include "server/kserve/output_tensors.h"
#include "tests/fuzz/check.h"

namespace recurve::server::kserve {
namespace {

constexpr TensorLimits kLimits = {.max_input_bytes = 1 << 16,
                                  .max_output_bytes = 1 << 20};

std::shared_ptr<const Model> ModelOf(uint8_t which) {
  static const auto& models = *new std::vector<std::shared_ptr<const Model>>{
      TokenModel(), FeatureModel(), PoolingModel()};
  return models[which % models.size()];
}

// As large as the selection asks, all zeros.
Prediction Zeros(const DecodedRequest& request,
                 std::shared_ptr<const Model> model) {
  const OutputSelection& selection = request.selection;
  Prediction prediction;
  prediction.rows =
      model->pools() ? request.batch.num_sequences() : request.batch.num_rows();
  prediction.columns = model->output_size();
  prediction.hidden_columns = model->hidden_channels();
  const int64_t numbers = prediction.rows * prediction.columns;
  if (selection.logits) prediction.logits.resize(numbers);
  if (selection.probabilities) prediction.probabilities.resize(numbers);
  if (selection.classes) prediction.classes.resize(prediction.rows);
  prediction.top_classes.resize(prediction.rows * selection.top_k);
  prediction.top_probabilities.resize(prediction.rows * selection.top_k);
  if (selection.hidden) {
    prediction.hidden.resize(request.batch.num_rows() *
                             prediction.hidden_columns);
  }
  prediction.version = ModelVersion::InMemory(std::move(model), {});
  return prediction;
}

void CheckOutput(const inference::ModelInferResponse::InferOutputTensor& tensor,
                 const std::string& raw) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape()) {
    FUZZ_CHECK(size >= 1);
    elements *= size;
  }
  const int64_t bytes = static_cast<int64_t>(raw.size());
  // Text has a length before each element.
  FUZZ_CHECK(tensor.datatype() == "BYTES" ? bytes >= 4 * elements
                                          : bytes == 4 * elements);
}

void CheckResponse(const DecodedRequest& request,
                   const Prediction& prediction) {
  inference::ModelInferResponse response;
  FUZZ_CHECK(
      WriteOutputs(request.outputs, prediction, request.layout, &response)
          .ok());
  FUZZ_CHECK(response.outputs_size() == response.raw_output_contents_size());
  FUZZ_CHECK(response.outputs_size() > 0);
  for (int i = 0; i < response.outputs_size(); ++i) {
    CheckOutput(response.outputs(i), response.raw_output_contents(i));
  }
}

void CheckRequest(const DecodedRequest& request,
                  const std::shared_ptr<const Model>& model) {
  FUZZ_CHECK(
      model->CheckBatch(request.batch, /*allow_empty_sequences=*/false).ok());
  FUZZ_CHECK(request.layout.cu_seqlens == request.batch.cu_seqlens);
  CheckResponse(request, Zeros(request, model));
}

}  // namespace
}  // namespace recurve::server::kserve

// The first byte says which model is asked.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace recurve::server::kserve;
  if (size == 0) return 0;
  inference::ModelInferRequest request;
  if (!request.ParseFromArray(data + 1, static_cast<int>(size) - 1)) return 0;
  const auto model = ModelOf(data[0]);
  const auto parameters = ReadParameters(request.parameters());
  if (!parameters.ok()) return 0;
  const auto decoded =
      Decode(request, *parameters, *model, SharedMemoryRegions(), kLimits);
  if (!decoded.ok()) return 0;
  FUZZ_CHECK(!parameters->sequence.has_value() || decoded->layout.batch() == 1);
  CheckRequest(*decoded, model);
  return 0;
}
