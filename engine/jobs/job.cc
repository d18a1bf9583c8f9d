#include "engine/jobs/job.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

constexpr unsigned Bit(JobState state) {
  return 1u << static_cast<unsigned>(state);
}

// What may follow each state. Back to QUEUED goes a paused job that is resumed,
// and one whose server ended while it ran. A run that is told to stop may come
// to its own end first.
unsigned Successors(JobState from) {
  using enum JobState;
  switch (from) {
    case kQueued:
      return Bit(kValidating) | Bit(kPaused) | Bit(kCancelled) | Bit(kFailed);
    case kValidating:
      return Bit(kRunning) | Bit(kPausing) | Bit(kCancelling) | Bit(kFailed) |
             Bit(kQueued) | Bit(kSucceeded);
    case kRunning:
      return Bit(kPausing) | Bit(kCancelling) | Bit(kSucceeded) | Bit(kFailed) |
             Bit(kQueued);
    case kPausing:  // VALIDATING: resumed before the pause took effect
      return Bit(kPaused) | Bit(kValidating) | Bit(kCancelling) |
             Bit(kSucceeded) | Bit(kFailed);
    case kPaused:
      return Bit(kQueued) | Bit(kCancelled) | Bit(kFailed);
    case kCancelling:
      return Bit(kCancelled) | Bit(kSucceeded) | Bit(kFailed);
    case kCancelled:
    case kSucceeded:
    case kFailed:
      return 0;
  }
  return 0;
}

}  // namespace

absl::string_view JobStateName(JobState state) {
  using enum JobState;
  switch (state) {
    case kQueued:
      return "QUEUED";
    case kValidating:
      return "VALIDATING";
    case kRunning:
      return "RUNNING";
    case kPausing:
      return "PAUSING";
    case kPaused:
      return "PAUSED";
    case kCancelling:
      return "CANCELLING";
    case kCancelled:
      return "CANCELLED";
    case kSucceeded:
      return "SUCCEEDED";
    case kFailed:
      return "FAILED";
  }
  return "?";
}

bool HasEnded(JobState state) { return Successors(state) == 0; }

bool MayFollow(JobState from, JobState to) {
  return (Successors(from) & Bit(to)) != 0;
}

JobState AfterRestart(JobState state) {
  using enum JobState;
  switch (state) {
    case kValidating:
    case kRunning:
      return kQueued;
    case kPausing:
      return kPaused;
    case kCancelling:
      return kCancelled;
    default:
      return state;
  }
}

absl::StatusOr<JobState> AfterRequest(JobState state, JobChange change) {
  using enum JobState;
  switch (change) {
    case JobChange::kPause:
      if (state == kQueued) return kPaused;
      if (state == kValidating || state == kRunning) return kPausing;
      if (state == kPausing || state == kPaused) return state;
      break;
    case JobChange::kResume:
      if (state == kPaused) return kQueued;
      if (state == kPausing) return kValidating;
      break;
    case JobChange::kCancel:
      if (state == kQueued || state == kPaused) return kCancelled;
      if (HasEnded(state) || state == kCancelling) return state;
      return kCancelling;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("is ", JobStateName(state), " and cannot be ",
                   change == JobChange::kPause ? "paused" : "resumed"));
}

}  // namespace recurve
