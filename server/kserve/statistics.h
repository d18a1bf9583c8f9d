// What was served of a model version, in the protocol's terms.
#ifndef RECURVE_SERVER_KSERVE_STATISTICS_H_
#define RECURVE_SERVER_KSERVE_STATISTICS_H_

#include "engine/serve/model_version.h"
#include "engine/serve/serving_statistics.h"
#include "proto/inference/statistics.pb.h"

namespace recurve::server::kserve {

// An inference is a sequence, an execution a pass. `batch_size` is a pass's
// rows, rounded up to a power of two, and refusals count as failures.
inference::ModelStatistics StatisticsOf(const ModelVersion& version,
                                        const ServingCounts& counts);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_STATISTICS_H_
