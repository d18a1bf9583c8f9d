// The last numbered calls of a trainer with their replies: a client that never
// saw a reply makes the call again and gets it, and nothing is done twice.
#ifndef RECURVE_ENGINE_TRAIN_NUMBERED_CALLS_H_
#define RECURVE_ENGINE_TRAIN_NUMBERED_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/train/step_result.h"

namespace recurve {

inline constexpr size_t kKeptReplies = 16;

struct NumberedReply {
  int64_t number = 0;
  std::string request_sha256;  // of the request that it answers
  StepResult result;
};

// A value; not thread-safe. Calls are numbered 1, 2, 3, ...
class NumberedCalls {
 public:
  // The reply of the call, good until the next Add; null if this is the next
  // call to make. InvalidArgument for a number below 1, or one that another
  // request had; FailedPrecondition, which says where to go on, for a number
  // that leaves a gap and for one whose reply is kept no longer. `step` is the
  // trainer's, for that message.
  absl::StatusOr<const StepResult*> Find(int64_t number,
                                         absl::string_view request_sha256,
                                         int64_t step) const;

  // Its number is last_number() + 1, or any for the first one kept. Forgets
  // the oldest beyond kKeptReplies.
  void Add(NumberedReply reply);

  int64_t last_number() const {
    return replies_.empty() ? 0 : replies_.back().number;
  }
  const std::deque<NumberedReply>& replies() const { return replies_; }

 private:
  std::deque<NumberedReply> replies_;  // consecutive, ascending
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_NUMBERED_CALLS_H_
