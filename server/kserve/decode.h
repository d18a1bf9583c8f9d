// An inference request, decoded and checked.
#ifndef RECURVE_SERVER_KSERVE_DECODE_H_
#define RECURVE_SERVER_KSERVE_DECODE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/predictor.h"
#include "proto/inference/inference.pb.h"
#include "server/kserve/output_tensors.h"
#include "server/kserve/parameters.h"
#include "server/kserve/requested_outputs.h"
#include "server/kserve/shared_memory.h"

namespace recurve::server::kserve {

// What of it becomes a prediction, and what of the prediction a response.
struct DecodedRequest {
  SequenceBatch batch;
  BatchLayout layout;  // of `batch`
  std::vector<RequestedOutput> outputs;
  OutputSelection selection;
};

// Bytes that tensors may have beside those in the request: inputs in shared
// memory, and all outputs, padded.
struct TensorLimits {
  int64_t max_input_bytes = 0;
  int64_t max_output_bytes = 0;
};

// `parameters` are the request's. InvalidArgument says what is wrong and what
// would be right. A batch that is returned has passed Model::CheckBatch.
absl::StatusOr<DecodedRequest> Decode(
    const inference::ModelInferRequest& request,
    const InferParameters& parameters, const Model& model,
    const SharedMemoryRegions& regions, const TensorLimits& limits);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_DECODE_H_
