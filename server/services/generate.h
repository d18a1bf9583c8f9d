// Generate: tokens of a language model, streamed as they are drawn.
#ifndef RECURVE_SERVER_SERVICES_GENERATE_H_
#define RECURVE_SERVER_SERVICES_GENERATE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "proto/recurve/v1/compute.pb.h"
#include "server/engine.h"

namespace recurve::server {

grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
    Engine& engine, const grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_GENERATE_H_
