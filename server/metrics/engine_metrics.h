// All metrics of a running server, read off its parts.
#ifndef RECURVE_SERVER_METRICS_ENGINE_METRICS_H_
#define RECURVE_SERVER_METRICS_ENGINE_METRICS_H_

#include "server/access/call_counts.h"
#include "server/engine.h"
#include "server/metrics/family.h"

namespace recurve::server {

// As docs/metrics.md lists them. Blocks for no longer than the parts' own locks
// are held, and for a query of the unfinished jobs.
Families CollectMetrics(Engine& engine, const CallCounts& calls);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_METRICS_ENGINE_METRICS_H_
