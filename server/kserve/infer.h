// The way of one inference request: its tensors become a packed batch, which is
// predicted, and what comes back becomes tensors.
#ifndef RECURVE_SERVER_KSERVE_INFER_H_
#define RECURVE_SERVER_KSERVE_INFER_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "engine/serve/call_control.h"
#include "proto/inference/inference.pb.h"
#include "server/engine.h"
#include "server/kserve/shared_memory.h"

namespace recurve::server::kserve {

// Who asks, and until when.
struct Asker {
  CallControl control;
  std::string client;  // requests of different clients share devices equally
};

// `done` is called once, on any thread, or before this returns; `request` and
// `response` are good until then, `engine` and `regions` longer. The
// response of a request that fails has no outputs.
void Infer(Engine& engine, const SharedMemoryRegions& regions,
           const inference::ModelInferRequest& request, const Asker& asker,
           inference::ModelInferResponse& response,
           std::function<void(absl::Status)> done);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_INFER_H_
