// Data that a request names, to be run through a model.
#ifndef RECURVE_SERVER_SERVICES_READ_SOURCE_H_
#define RECURVE_SERVER_SERVICES_READ_SOURCE_H_

#include "absl/status/statusor.h"
#include "engine/data/dataset.h"
#include "engine/serve/model_version.h"
#include "proto/recurve/v1/training_config.pb.h"
#include "server/engine.h"

namespace recurve::server {

// Parsed for this model; without a format, text. Reads it, so it takes long.
absl::StatusOr<Dataset> ReadSource(const Engine& engine,
                                   const ModelVersion& version,
                                   const v1::DataSource& source,
                                   v1::DataFormat format);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_READ_SOURCE_H_
