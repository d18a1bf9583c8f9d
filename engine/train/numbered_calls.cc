#include "engine/train/numbered_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

absl::Status NotNext(int64_t number, int64_t last, int64_t step,
                     absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(
      "number: is ", number, ", ", why, "; the trainer's last call is number ",
      last, ", at step ", step, ": go on from number ", last + 1));
}

}  // namespace

absl::StatusOr<const StepResult*> NumberedCalls::Find(
    int64_t number, absl::string_view request_sha256, int64_t step) const {
  if (number < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("number: is ", number, ", must be 1 or more"));
  }
  const int64_t last = last_number();
  if (number == last + 1) return nullptr;
  if (number > last) {
    return NotNext(number, last, step, "which leaves a gap");
  }
  const int64_t first = replies_.front().number;
  if (number < first) {
    return NotNext(number, last, step, "whose reply is kept no longer");
  }
  const NumberedReply& reply = replies_[number - first];
  if (reply.request_sha256 != request_sha256) {
    return absl::InvalidArgumentError(
        absl::StrCat("number: ", number,
                     " was another request's; a call that is made again must "
                     "be the same in every field"));
  }
  return &reply.result;
}

void NumberedCalls::Add(NumberedReply reply) {
  replies_.push_back(std::move(reply));
  if (replies_.size() > kKeptReplies) replies_.pop_front();
}

}  // namespace recurve
