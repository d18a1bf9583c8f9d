// The Open Inference Protocol's service (KServe v2), as docs/kserve.md has it.
#ifndef RECURVE_SERVER_KSERVE_SERVICE_H_
#define RECURVE_SERVER_KSERVE_SERVICE_H_

#include <memory>

#include "grpcpp/impl/codegen/service_type.h"
#include "server/engine.h"

namespace recurve::server::kserve {

// `engine` outlives the service.
std::unique_ptr<grpc::Service> NewInferenceProtocolService(Engine& engine);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_SERVICE_H_
