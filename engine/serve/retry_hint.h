// When it is worth trying again, said with a refusal.
#ifndef RECURVE_ENGINE_SERVE_RETRY_HINT_H_
#define RECURVE_ENGINE_SERVE_RETRY_HINT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace recurve {

// The hint travels with the status, beside its message. REQUIRES: not OK;
// `delay` is finite and not negative.
void SetRetryHint(absl::Status& status, absl::Duration delay);

// Absent where none was given.
std::optional<absl::Duration> RetryHint(const absl::Status& status);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_RETRY_HINT_H_
