#include "server/kserve/statistics.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/status.h"
#include "server/kserve/models.h"

namespace recurve::server::kserve {
namespace {

using inference::StatisticDuration;

void Set(int64_t count, absl::Duration time, StatisticDuration* wire) {
  wire->set_count(count);
  wire->set_ns(absl::ToInt64Nanoseconds(time));
}

void Set(const TimedCount& counted, StatisticDuration* wire) {
  Set(counted.count, counted.time, wire);
}

void AddPasses(int64_t rows, const PassCount& count,
               inference::ModelStatistics& wire) {
  auto& batch = *wire.add_batch_stats();
  batch.set_batch_size(rows);
  Set(count.passes, count.times.input, batch.mutable_compute_input());
  Set(count.passes, count.times.infer, batch.mutable_compute_infer());
  Set(count.passes, count.times.output, batch.mutable_compute_output());
}

absl::StatusOr<std::vector<ModelHandle>> VersionsNamed(
    const Registry& registry,
    const inference::ModelStatisticsRequest& request) {
  if (request.name().empty()) return AllVersions(registry);
  ASSIGN_OR_RETURN(
      const ModelHandle version,
      FindVersion(request.name(), request.version(),
                  [&](absl::string_view name) { return registry.Get(name); }));
  if (!request.version().empty()) return std::vector<ModelHandle>{version};
  return VersionsOf(registry, request.name());
}

}  // namespace

inference::ModelStatistics StatisticsOf(const ModelVersion& version,
                                        const ServingCounts& counts) {
  inference::ModelStatistics wire;
  wire.set_name(version.model_id);
  wire.set_version(absl::StrCat(version.number));
  if (counts.last_request > absl::UnixEpoch()) {
    wire.set_last_inference(absl::ToUnixMillis(counts.last_request));
  }
  wire.set_inference_count(counts.sequences);
  wire.set_execution_count(counts.passes);
  auto& stats = *wire.mutable_inference_stats();
  Set(counts.succeeded, stats.mutable_success());
  Set(counts.failed.count + counts.refused, counts.failed.time,
      stats.mutable_fail());
  Set(counts.queue, stats.mutable_queue());
  Set(counts.input, stats.mutable_compute_input());
  Set(counts.infer, stats.mutable_compute_infer());
  Set(counts.output, stats.mutable_compute_output());
  Set(0, absl::ZeroDuration(), stats.mutable_cache_hit());
  Set(0, absl::ZeroDuration(), stats.mutable_cache_miss());
  for (const auto& [rows, count] : counts.passes_by_rows) {
    AddPasses(rows, count, wire);
  }
  return wire;
}

absl::StatusOr<inference::ModelStatisticsResponse> Statistics(
    const Registry& registry, const ServingStatistics& statistics,
    const inference::ModelStatisticsRequest& request) {
  ASSIGN_OR_RETURN(const std::vector<ModelHandle> versions,
                   VersionsNamed(registry, request));
  inference::ModelStatisticsResponse response;
  for (const ModelHandle& version : versions) {
    *response.add_model_stats() =
        StatisticsOf(*version, statistics.SnapshotOf(version->name));
  }
  return response;
}

}  // namespace recurve::server::kserve
