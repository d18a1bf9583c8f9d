// Predictions as the protocol's tensors.
#ifndef RECURVE_SERVER_KSERVE_OUTPUT_TENSORS_H_
#define RECURVE_SERVER_KSERVE_OUTPUT_TENSORS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/serve/predictor.h"
#include "proto/inference/inference.pb.h"
#include "server/kserve/requested_outputs.h"

namespace recurve::server::kserve {

// How the rows of a prediction lie in the batch that it is of.
struct BatchLayout {
  std::vector<int64_t> cu_seqlens;  // [B + 1]
  int64_t steps = 0;                // that each sequence is padded to

  int64_t batch() const { return static_cast<int64_t>(cu_seqlens.size()) - 1; }
};

// Puts each output in its place, or in the response, where it has an entry in
// either case. `prediction` has what SelectionFor the outputs says.
// FailedPrecondition for a classification of logits with a NaN.
absl::Status WriteOutputs(const std::vector<RequestedOutput>& outputs,
                          const Prediction& prediction,
                          const BatchLayout& layout,
                          inference::ModelInferResponse* response);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_OUTPUT_TENSORS_H_
