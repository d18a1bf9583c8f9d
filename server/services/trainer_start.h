// What CreateTrainer starts a trainer from: a spec, a config or a version.
#ifndef RECURVE_SERVER_SERVICES_TRAINER_START_H_
#define RECURVE_SERVER_SERVICES_TRAINER_START_H_

#include "absl/status/statusor.h"
#include "engine/train/trainer_store.h"
#include "proto/recurve/v1/compute.pb.h"
#include "server/engine.h"

namespace recurve::server {

// Reads data and weights, so it takes long. InvalidArgument names the field
// that is wrong, ResourceExhausted the limit of a model that is too large.
absl::StatusOr<TrainerStart> StartOf(Engine& engine,
                                     const v1::CreateTrainerRequest& request);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_TRAINER_START_H_
