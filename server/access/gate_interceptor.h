// Shows every call to the gate and counts how it ends.
#ifndef RECURVE_SERVER_ACCESS_GATE_INTERCEPTOR_H_
#define RECURVE_SERVER_ACCESS_GATE_INTERCEPTOR_H_

#include <memory>

#include "grpcpp/support/server_interceptor.h"
#include "server/access/call_counts.h"
#include "server/access/gate.h"

namespace recurve::server {

// For ServerBuilder::experimental(). An interceptor of gRPC's cannot refuse a
// call; what the gate says stands in AdmissionOf(context), where the classes of
// calls look. `gate` and `counts` outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewGateInterceptors(Gate& gate, CallCounts& counts);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_GATE_INTERCEPTOR_H_
