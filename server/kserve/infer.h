// The way of one inference request: its tensors become a packed batch, which is
// predicted, and what comes back becomes tensors.
#ifndef RECURVE_SERVER_KSERVE_INFER_H_
#define RECURVE_SERVER_KSERVE_INFER_H_

#include <functional>

#include "absl/status/status.h"
#include "engine/serve/call_control.h"
#include "proto/inference/inference.pb.h"
#include "server/engine.h"
#include "server/kserve/shared_memory.h"

namespace recurve::server::kserve {

// `done` is called once, on any thread, or before this returns; `request` and
// `response` are good until then, `engine` and `regions` longer. The
// response of a request that fails has no outputs.
void Infer(Engine& engine, const SharedMemoryRegions& regions,
           const inference::ModelInferRequest& request,
           const CallControl& control, inference::ModelInferResponse& response,
           std::function<void(absl::Status)> done);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_INFER_H_
