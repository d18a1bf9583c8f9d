// Which queued job runs next: a pure function, and the measure of what owners
// have used that it looks at.
//
// The highest priority goes first. Within a priority the owner with the fewest
// running jobs does, then the one who has used the devices least of late, then
// the owner of the oldest job; of one owner's jobs the oldest. No running job
// makes way for another.
//
// So among owners of one priority none starves: while a job waits, the use of
// the others grows and that of its own owner fades. On one place, who had it
// alone before waits at most log2(owners) half-lives and one job.
#ifndef RECURVE_ENGINE_JOBS_JOB_QUEUE_H_
#define RECURVE_ENGINE_JOBS_JOB_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace recurve {

// A job's claim to a place.
struct QueuedJob {
  std::string owner;
  int32_t priority = 0;
  int64_t order = 0;  // of submission; no two jobs have the same
};

// What an owner has of the devices.
struct OwnerShare {
  int running = 0;  // jobs
  double use = 0;   // device-seconds of late
};
using OwnerShares = std::map<std::string, OwnerShare>;  // absent: nothing

// Indices of `queued` in the order in which the jobs would start if no running
// one ended: each that starts counts as running for those after it.
std::vector<size_t> StartOrder(absl::Span<const QueuedJob> queued,
                               OwnerShares shares);

// Device-seconds of each owner, every one of them counting half as much after
// kHalfLife and so on: what somebody used last week takes nothing from them
// today. Time is a parameter and may stand still or jump back, which then
// counts as standing still.
class UseMeter {
 public:
  static constexpr absl::Duration kHalfLife = absl::Hours(6);

  void Add(const std::string& owner, double device_seconds, absl::Time now);
  double Use(const std::string& owner, absl::Time now) const;

 private:
  struct Reading {
    double use = 0;
    absl::Time at;
  };
  static double Faded(const Reading& reading, absl::Time now);

  std::map<std::string, Reading> readings_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_QUEUE_H_
