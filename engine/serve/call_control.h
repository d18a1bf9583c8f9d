// Until when, and whether at all, a caller still wants its result.
#ifndef RECURVE_ENGINE_SERVE_CALL_CONTROL_H_
#define RECURVE_ENGINE_SERVE_CALL_CONTROL_H_

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace recurve {

struct CallControl {
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const std::atomic<bool>> cancelled;  // may be null

  // Cancelled or DeadlineExceeded once the work should stop.
  absl::Status Check() const {
    return Check(deadline == absl::InfiniteFuture() ? absl::InfinitePast()
                                                    : absl::Now());
  }
  absl::Status Check(absl::Time now) const {
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
      return absl::CancelledError("the caller went away");
    }
    if (now >= deadline) {
      return absl::DeadlineExceededError("the deadline passed");
    }
    return absl::OkStatus();
  }
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_CALL_CONTROL_H_
