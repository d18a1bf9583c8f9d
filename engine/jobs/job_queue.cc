#include "engine/jobs/job_queue.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace recurve {
namespace {

// Below this, in device-seconds, an owner's past is forgotten.
constexpr double kForgotten = 1e-3;

// An owner with jobs of one priority that wait.
struct Owner {
  OwnerShare share;
  std::deque<size_t> jobs;  // indices, oldest first
};

// The oldest job's claim; the smallest goes first.
using Claim = std::tuple<int, double, int64_t, std::string>;

Claim ClaimOf(const std::string& name, const Owner& owner,
              absl::Span<const QueuedJob> queued) {
  return {owner.share.running, owner.share.use,
          queued[owner.jobs.front()].order, name};
}

// Moves the jobs of one priority, oldest first, to the end of `order`.
void AppendFairly(absl::Span<const QueuedJob> queued,
                  absl::Span<const size_t> jobs, OwnerShares& shares,
                  std::vector<size_t>& order) {
  std::map<std::string, Owner> owners;
  for (const size_t job : jobs) {
    owners[queued[job].owner].jobs.push_back(job);
  }
  std::set<Claim> claims;
  for (auto& [name, owner] : owners) {
    owner.share = shares[name];
    claims.insert(ClaimOf(name, owner, queued));
  }
  while (!claims.empty()) {
    const std::string name = std::get<std::string>(*claims.begin());
    claims.erase(claims.begin());
    Owner& owner = owners[name];
    order.push_back(owner.jobs.front());
    owner.jobs.pop_front();
    owner.share.running = ++shares[name].running;
    if (!owner.jobs.empty()) claims.insert(ClaimOf(name, owner, queued));
  }
}

}  // namespace

std::vector<size_t> StartOrder(absl::Span<const QueuedJob> queued,
                               OwnerShares shares) {
  std::vector<size_t> jobs(queued.size());
  std::iota(jobs.begin(), jobs.end(), size_t{0});
  std::sort(jobs.begin(), jobs.end(), [&](size_t a, size_t b) {
    return std::make_pair(-int64_t{queued[a].priority}, queued[a].order) <
           std::make_pair(-int64_t{queued[b].priority}, queued[b].order);
  });
  std::vector<size_t> order;
  for (size_t begin = 0, end = 0; begin < jobs.size(); begin = end) {
    while (end < jobs.size() &&
           queued[jobs[end]].priority == queued[jobs[begin]].priority) {
      ++end;
    }
    AppendFairly(queued, absl::MakeSpan(jobs).subspan(begin, end - begin),
                 shares, order);
  }
  return order;
}

double UseMeter::Faded(const Reading& reading, absl::Time now) {
  const absl::Duration age = std::max(now - reading.at, absl::ZeroDuration());
  return reading.use * std::exp2(-absl::FDivDuration(age, kHalfLife));
}

void UseMeter::Add(const std::string& owner, double device_seconds,
                   absl::Time now) {
  std::erase_if(readings_, [now](const auto& reading) {
    return Faded(reading.second, now) < kForgotten;
  });
  Reading& reading = readings_[owner];
  reading = {Faded(reading, now) + std::max(device_seconds, 0.0),
             std::max(reading.at, now)};
}

double UseMeter::Use(const std::string& owner, absl::Time now) const {
  const auto at = readings_.find(owner);
  return at == readings_.end() ? 0 : Faded(at->second, now);
}

}  // namespace recurve
