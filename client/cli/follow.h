// Following a job to its end, over losses of the connection and restarts of the
// server.
#ifndef RECURVE_CLIENT_CLI_FOLLOW_H_
#define RECURVE_CLIENT_CLI_FOLLOW_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/recurve/v1/jobs.pb.h"

namespace recurve::cli {

// When to try again to reach a server that is away: after 0.2 seconds, then
// twice as long after each attempt, at most 5 seconds, until it has been away
// for `patience`.
class Reconnection {
 public:
  explicit Reconnection(absl::Duration patience) : patience_(patience) {}

  void Heard() { away_since_.reset(); }
  // How long to wait before the next attempt; none: patience is over.
  std::optional<absl::Duration> NextDelay(absl::Time now);

 private:
  const absl::Duration patience_;
  std::optional<absl::Time> away_since_;
  absl::Duration delay_;
};

// What following needs of the world.
struct FollowHooks {
  using Sink = std::function<absl::Status(const v1::JobEvent&)>;
  // Client::WatchJob of the job.
  std::function<absl::Status(int64_t first_event, const Sink& sink)> watch;
  std::function<void(const v1::JobEvent&)> show;
  // The server went away, with this error: once, until it is back.
  std::function<void(const absl::Status&)> lost;
  std::function<void()> back;
  std::function<absl::Time()> now;
  std::function<void(absl::Duration)> sleep;
};

// Shows each event of the job once, in order, and returns the job as it ended.
// Unavailable if the server stayed away for longer than `patience`; DataLoss
// for events that are missing or come twice.
absl::StatusOr<v1::Job> FollowJob(const FollowHooks& hooks,
                                  absl::Duration patience);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_FOLLOW_H_
