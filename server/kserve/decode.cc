#include "server/kserve/decode.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "server/kserve/input_tensors.h"
#include "server/kserve/padded_batch.h"

namespace recurve::server::kserve {
namespace {

absl::Status CheckSequence(const InferParameters& parameters, int64_t batch) {
  if (!parameters.sequence.has_value() || batch == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a request of a sequence has a batch of 1, this one of ",
                   batch, "; send the others with sequence ids of their own"));
}

}  // namespace

absl::StatusOr<DecodedRequest> Decode(const inference::ModelInferRequest& wire,
                                      const InferParameters& parameters,
                                      const Model& model,
                                      const SharedMemoryRegions& regions,
                                      const TensorLimits& limits) {
  DecodedRequest request;
  const int64_t top_k = parameters.top_k;
  ASSIGN_OR_RETURN(request.outputs, ReadOutputs(wire, model, top_k, regions));
  request.selection = SelectionFor(request.outputs, top_k);
  ASSIGN_OR_RETURN(const InputTensors inputs,
                   ReadInputs(wire, regions, limits.max_input_bytes));
  ASSIGN_OR_RETURN(PaddedBatch batch, PackBatch(model, inputs));
  RETURN_IF_ERROR(
      model.CheckBatch(batch.packed, /*allow_empty_sequences=*/false));
  request.batch = std::move(batch.packed);
  request.layout = {request.batch.cu_seqlens, batch.steps};
  RETURN_IF_ERROR(CheckSequence(parameters, request.layout.batch()));
  RETURN_IF_ERROR(CheckSizes(request.outputs, request.layout.batch(),
                             request.layout.steps, limits.max_output_bytes));
  return request;
}

}  // namespace recurve::server::kserve
