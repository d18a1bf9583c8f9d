#include "engine/train/job.h"

namespace recurve {
namespace {

constexpr unsigned Bit(JobState state) {
  return 1u << static_cast<unsigned>(state);
}

// What may follow each state. Back to QUEUED goes a paused job that is resumed,
// and one whose server ended while it ran.
unsigned Successors(JobState from) {
  using enum JobState;
  switch (from) {
    case kQueued:
      return Bit(kValidating) | Bit(kPaused) | Bit(kCancelled) | Bit(kFailed);
    case kValidating:
      return Bit(kRunning) | Bit(kPausing) | Bit(kCancelling) | Bit(kFailed) |
             Bit(kQueued);
    case kRunning:
      return Bit(kPausing) | Bit(kCancelling) | Bit(kSucceeded) | Bit(kFailed) |
             Bit(kQueued);
    case kPausing:  // it may end before the pause takes effect
      return Bit(kPaused) | Bit(kCancelling) | Bit(kSucceeded) | Bit(kFailed);
    case kPaused:
      return Bit(kQueued) | Bit(kCancelled) | Bit(kFailed);
    case kCancelling:  // it may end before the cancellation takes effect
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

}  // namespace recurve
