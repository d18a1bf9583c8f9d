#include "engine/serve/serving_statistics.h"

namespace recurve {
namespace {

int64_t PowerOfTwoFrom(int64_t rows) {
  int64_t power = 1;
  while (power < rows) power *= 2;
  return power;
}

}  // namespace

void VersionStatistics::Entered(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  ++counts_.pending;
  counts_.last_request = now;
}

void VersionStatistics::Left(const Ended& ended) {
  absl::MutexLock lock(&mutex_);
  --counts_.pending;
  if (!ended.status.ok()) {
    counts_.failed.Add(ended.total);
    counts_.cancelled += absl::IsCancelled(ended.status) ||
                         absl::IsDeadlineExceeded(ended.status);
    return;
  }
  counts_.succeeded.Add(ended.total);
  counts_.queue.Add(ended.queue);
  counts_.input.Add(ended.passes.input);
  counts_.infer.Add(ended.passes.infer);
  counts_.output.Add(ended.passes.output);
  counts_.sequences += ended.sequences;
}

void VersionStatistics::Refused() {
  absl::MutexLock lock(&mutex_);
  ++counts_.refused;
}

void VersionStatistics::Passed(int64_t rows, const PassTimes& times) {
  absl::MutexLock lock(&mutex_);
  ++counts_.passes;
  counts_.rows += rows;
  PassCount& count = counts_.passes_by_rows[PowerOfTwoFrom(rows)];
  ++count.passes;
  count.times += times;
}

ServingCounts VersionStatistics::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

std::shared_ptr<VersionStatistics> ServingStatistics::Of(
    const std::string& version) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<VersionStatistics>& statistics = versions_[version];
  if (statistics == nullptr) {
    statistics = std::make_shared<VersionStatistics>();
  }
  return statistics;
}

std::map<std::string, ServingCounts> ServingStatistics::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  std::map<std::string, ServingCounts> counts;
  for (const auto& [name, statistics] : versions_) {
    counts[name] = statistics->Snapshot();
  }
  return counts;
}

ServingCounts ServingStatistics::SnapshotOf(const std::string& version) const {
  absl::MutexLock lock(&mutex_);
  const auto found = versions_.find(version);
  return found == versions_.end() ? ServingCounts() : found->second->Snapshot();
}

void ServingStatistics::Forget(const std::string& version) {
  absl::MutexLock lock(&mutex_);
  versions_.erase(version);
}

}  // namespace recurve
