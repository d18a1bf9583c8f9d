// Inference.PredictStream.
#ifndef RECURVE_SERVER_SERVICES_PREDICT_STREAM_H_
#define RECURVE_SERVER_SERVICES_PREDICT_STREAM_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "proto/recurve/v1/compute.pb.h"
#include "server/engine.h"

namespace recurve::server {

grpc::ServerBidiReactor<v1::PredictRequest, v1::PredictStreamResponse>*
StartPredictStream(Engine& engine, const grpc::CallbackServerContext& context);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_PREDICT_STREAM_H_
