// The services of the wire contract, each one file. They decode, hand over to
// the engine, and encode.
#ifndef RECURVE_SERVER_SERVICES_SERVICES_H_
#define RECURVE_SERVER_SERVICES_SERVICES_H_

#include <memory>

#include "grpcpp/impl/codegen/service_type.h"
#include "server/engine.h"

namespace recurve::server {

// `engine` outlives the service.
std::unique_ptr<grpc::Service> NewModelsService(Engine& engine);
std::unique_ptr<grpc::Service> NewDatasetsService(Engine& engine);
std::unique_ptr<grpc::Service> NewInferenceService(Engine& engine);
std::unique_ptr<grpc::Service> NewSessionsService(Engine& engine);
std::unique_ptr<grpc::Service> NewTrainersService(Engine& engine);
std::unique_ptr<grpc::Service> NewJobsService(Engine& engine);
std::unique_ptr<grpc::Service> NewDevicesService(Engine& engine);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_SERVICES_H_
