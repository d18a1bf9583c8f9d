// ModelStreamInfer: requests as they come, answered in their order.
#ifndef RECURVE_SERVER_KSERVE_INFER_STREAM_H_
#define RECURVE_SERVER_KSERVE_INFER_STREAM_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "proto/inference/inference.pb.h"
#include "server/engine.h"
#include "server/kserve/shared_memory.h"

namespace recurve::server::kserve {

// An error of a request is in its response, and the stream goes on; where the
// client's metadata has `triton_grpc_error: true` it ends the stream. `engine`
// and `regions` outlive the call.
grpc::ServerBidiReactor<inference::ModelInferRequest,
                        inference::ModelStreamInferResponse>*
StartInferStream(Engine& engine, const SharedMemoryRegions& regions,
                 const grpc::CallbackServerContext& context);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_INFER_STREAM_H_
