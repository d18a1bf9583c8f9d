// What the protocol says of a model: its metadata and its configuration.
#ifndef RECURVE_SERVER_KSERVE_MODEL_INFO_H_
#define RECURVE_SERVER_KSERVE_MODEL_INFO_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/serve/model_version.h"
#include "proto/inference/inference.pb.h"
#include "proto/inference/model_config.pb.h"

namespace recurve::server::kserve {

// What holds for all models of a server.
struct ServingLimits {
  int32_t max_batch_size = 1;
  absl::Duration batch_timeout;
  int priority_levels = 1;
  int default_priority = 1;
  absl::Duration sequence_idle_timeout;
  int32_t max_sequences = 1;
};

// `versions` are those that there are of the model.
inference::ModelMetadataResponse MetadataOf(
    const ModelVersion& version, absl::Span<const ModelHandle> versions);

// Models that can keep the state of a sequence say so by sequence_batching,
// which sends load generators to their sequence mode, unless `plain`; such
// models take requests without a sequence all the same.
inference::ModelConfig ConfigOf(const ModelVersion& version,
                                const ServingLimits& limits, bool plain);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_MODEL_INFO_H_
