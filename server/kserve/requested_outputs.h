// What a request wants back.
#ifndef RECURVE_SERVER_KSERVE_REQUESTED_OUTPUTS_H_
#define RECURVE_SERVER_KSERVE_REQUESTED_OUTPUTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/serve/predictor.h"
#include "proto/inference/inference.pb.h"
#include "server/kserve/model_tensors.h"
#include "server/kserve/shared_memory.h"
#include "server/kserve/tensor_place.h"

namespace recurve::server::kserve {

struct RequestedOutput {
  ModelOutput output;
  // Instead of the numbers the largest so many of each row, as text; 0: no.
  int64_t classification = 0;
  std::optional<TensorPlace> place;  // else in the response
};

// Those that the request names, or all that there are by default. `top_k` is
// its parameter. InvalidArgument says which output is wrong and what there is.
absl::StatusOr<std::vector<RequestedOutput>> ReadOutputs(
    const inference::ModelInferRequest& request, const Model& model,
    int64_t top_k, const SharedMemoryRegions& regions);

OutputSelection SelectionFor(const std::vector<RequestedOutput>& outputs,
                             int64_t top_k);

// The output's shape in a batch of B sequences of `steps`.
std::vector<int64_t> BatchShape(const RequestedOutput& output, int64_t batch,
                                int64_t steps);

// ResourceExhausted if the outputs, padding included, have more than
// `max_bytes`; InvalidArgument if one is larger than its place.
absl::Status CheckSizes(const std::vector<RequestedOutput>& outputs,
                        int64_t batch, int64_t steps, int64_t max_bytes);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_REQUESTED_OUTPUTS_H_
