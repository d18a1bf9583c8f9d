// Versions of models as the wire shows them, and what is done to one of them.
#ifndef RECURVE_SERVER_SERVICES_MODEL_VERSIONS_H_
#define RECURVE_SERVER_SERVICES_MODEL_VERSIONS_H_

#include "absl/status/status.h"
#include "engine/serve/call_control.h"
#include "engine/serve/model_version.h"
#include "proto/recurve/v1/model.pb.h"
#include "server/engine.h"

namespace recurve::server {

// `whole`: with the vocabulary and the number of sessions, which lists leave
// out.
v1::ModelVersion ToWire(const Engine& engine, const ModelVersion& version,
                        bool whole);

absl::Status SetModelAlias(Engine& engine,
                           const v1::SetModelAliasRequest& request,
                           v1::Model* response);
// Both may read the weights, and wait for devices.
absl::Status LoadModelVersion(Engine& engine,
                              const v1::LoadModelVersionRequest& request,
                              const CallControl& control,
                              v1::ModelVersion* response);
absl::Status UnloadModelVersion(Engine& engine,
                                const v1::UnloadModelVersionRequest& request,
                                v1::ModelVersion* response);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_MODEL_VERSIONS_H_
