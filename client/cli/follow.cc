#include "client/cli/follow.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace recurve::cli {
namespace {

constexpr absl::Duration kFirstDelay = absl::Milliseconds(200);
constexpr absl::Duration kLongestDelay = absl::Seconds(5);

bool HasEnded(const v1::Job& job) {
  return job.state() == v1::Job::SUCCEEDED || job.state() == v1::Job::FAILED ||
         job.state() == v1::Job::CANCELLED;
}

class Follower {
 public:
  Follower(const FollowHooks& hooks, absl::Duration patience)
      : hooks_(hooks), reconnection_(patience) {}

  absl::StatusOr<v1::Job> Follow() {
    while (true) {
      const absl::Status watched = hooks_.watch(
          next_, [this](const v1::JobEvent& event) { return Take(event); });
      if (watched.ok()) return End();
      if (!absl::IsUnavailable(watched)) return watched;
      const auto delay = reconnection_.NextDelay(hooks_.now());
      if (!delay) return watched;
      if (!lost_) hooks_.lost(watched);
      lost_ = true;
      hooks_.sleep(*delay);
    }
  }

 private:
  absl::Status Take(const v1::JobEvent& event) {
    if (lost_) hooks_.back();
    lost_ = false;
    reconnection_.Heard();
    if (event.number() != next_) {
      return absl::DataLossError(
          absl::StrCat("event ", event.number(), " came instead of ", next_));
    }
    ++next_;
    if (event.has_state()) job_ = event.state();
    hooks_.show(event);
    return absl::OkStatus();
  }

  absl::StatusOr<v1::Job> End() const {
    if (HasEnded(job_)) return job_;
    return absl::DataLossError("the events ended before the job did");
  }

  const FollowHooks& hooks_;
  Reconnection reconnection_;
  bool lost_ = false;
  int64_t next_ = 0;
  v1::Job job_;
};

}  // namespace

std::optional<absl::Duration> Reconnection::NextDelay(absl::Time now) {
  if (!away_since_) {
    away_since_ = now;
    delay_ = kFirstDelay;
  }
  const absl::Duration left = *away_since_ + patience_ - now;
  if (left <= absl::ZeroDuration()) return std::nullopt;
  const absl::Duration delay = std::min(delay_, left);
  delay_ = std::min(2 * delay_, kLongestDelay);
  return delay;
}

absl::StatusOr<v1::Job> FollowJob(const FollowHooks& hooks,
                                  absl::Duration patience) {
  return Follower(hooks, patience).Follow();
}

}  // namespace recurve::cli
