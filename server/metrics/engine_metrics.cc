#include "server/metrics/engine_metrics.h"

#include <cstdint>
#include <map>
#include <vector>

#include "server/metrics/device_families.h"
#include "server/metrics/server_families.h"
#include "server/metrics/serving_families.h"

namespace recurve::server {
namespace {

std::vector<DeviceSnapshot> Devices(const Engine& engine) {
  std::vector<DeviceSnapshot> devices;
  for (int rank = 0; rank < engine.devices->size(); ++rank) {
    const DeviceWorker& device = engine.devices->device(rank);
    devices.push_back(
        {device.name(), device.stats(), device.ledger().Snapshot()});
  }
  return devices;
}

// Nothing where the records cannot be read, and no damaged ones.
std::map<JobState, int64_t> UnfinishedJobs(const Engine& engine) {
  std::map<JobState, int64_t> counts;
  const auto jobs = engine.jobs->Unfinished();
  if (!jobs.ok()) return counts;
  for (const absl::StatusOr<Job>& job : *jobs) {
    if (job.ok()) ++counts[job->state];
  }
  return counts;
}

}  // namespace

Families CollectMetrics(Engine& engine, const CallCounts& calls) {
  Families families;
  AddServing(engine.batcher.statistics().Snapshot(), families);
  AddSessions(engine.sessions.statistics(), families);
  AddDevices(Devices(engine), families);
  AddJobs(UnfinishedJobs(engine), families);
  AddCalls(calls.Snapshot(), families);
  AddBuild(families);
  return families;
}

}  // namespace recurve::server
