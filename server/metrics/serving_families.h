// What has been served of each model version.
#ifndef RECURVE_SERVER_METRICS_SERVING_FAMILIES_H_
#define RECURVE_SERVER_METRICS_SERVING_FAMILIES_H_

#include <map>
#include <string>

#include "engine/serve/serving_statistics.h"
#include "server/metrics/family.h"

namespace recurve::server {

// By the version's name. Dashboards for Triton find the names that they know
// (nv_inference_...), with the labels model and version; recurve_... are ours.
void AddServing(const std::map<std::string, ServingCounts>& versions,
                Families& families);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_METRICS_SERVING_FAMILIES_H_
