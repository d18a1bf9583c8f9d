// What was served of model versions, in the protocol's terms.
#ifndef RECURVE_SERVER_KSERVE_STATISTICS_H_
#define RECURVE_SERVER_KSERVE_STATISTICS_H_

#include "absl/status/statusor.h"
#include "engine/serve/model_version.h"
#include "engine/serve/registry.h"
#include "engine/serve/serving_statistics.h"
#include "proto/inference/statistics.pb.h"

namespace recurve::server::kserve {

// An inference is a sequence, an execution a pass. `batch_size` is a pass's
// rows, rounded up to a power of two, and refusals count as failures.
inference::ModelStatistics StatisticsOf(const ModelVersion& version,
                                        const ServingCounts& counts);

// Of one version, of all of a model, or of everything, as the request names
// them. NotFound.
absl::StatusOr<inference::ModelStatisticsResponse> Statistics(
    const Registry& registry, const ServingStatistics& statistics,
    const inference::ModelStatisticsRequest& request);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_STATISTICS_H_
