// Where numbers stop being finite in a replica's part of a call: its
// micro-batches once more, with a look at everything on the way.
#include <cmath>

#include "engine/model/not_finite_scan.h"
#include "engine/train/device_replica.h"
#include "engine/train/not_finite.h"
#include "kernels/status.h"

namespace recurve {

absl::StatusOr<std::vector<NotFiniteSequence>> DeviceReplica::Diagnose(
    const CallWork& work, NotFinitePart part) {
  std::vector<NotFiniteSequence> found;
  const Range mine = work.assignment[rank_];
  for (int64_t i = mine.begin;
       i < mine.end && found.size() < kMaxNotFiniteSequences; ++i) {
    worker_.ServeWaiting();
    RETURN_IF_ERROR(CheckNotCancelled(work));
    const Range sequences = work.micro_batches[i];
    if (part == NotFinitePart::kGradient) {
      RETURN_IF_ERROR(DiagnoseGradient(work, sequences, found));
    } else if (work.outcomes[i] != Outcome::kFinite) {
      RETURN_IF_ERROR(DiagnoseForward(work, sequences, found));
    }
  }
  return found;
}

absl::Status DeviceReplica::DiagnoseForward(
    const CallWork& work, Range sequences,
    std::vector<NotFiniteSequence>& found) {
  RETURN_IF_ERROR(Forward(work, sequences).status());
  ASSIGN_OR_RETURN(const std::vector<NotFiniteSequence> here,
                   executor_->FindNotFinite(micro_batch_.targets));
  for (NotFiniteSequence sequence : here) {
    sequence.sequence += sequences.begin;
    found.push_back(sequence);
  }
  return absl::OkStatus();
}

// The sequences whose gradient alone is not finite; all, if it is only that of
// several together.
absl::Status DeviceReplica::DiagnoseGradient(
    const CallWork& work, Range sequences,
    std::vector<NotFiniteSequence>& found) {
  ASSIGN_OR_RETURN(const std::optional<int> together,
                   FirstInGradient(work, sequences));
  if (!together) return absl::OkStatus();
  std::vector<NotFiniteSequence> alone, all;
  for (int64_t b = sequences.begin;
       b < sequences.end && alone.size() < kMaxNotFiniteSequences; ++b) {
    ASSIGN_OR_RETURN(const std::optional<int> place,
                     FirstInGradient(work, {b, b + 1}));
    if (place) alone.push_back({b, *place});
    all.push_back({b, *together});
  }
  const auto& here = alone.empty() ? all : alone;
  found.insert(found.end(), here.begin(), here.end());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int>> DeviceReplica::FirstInGradient(
    const CallWork& work, Range sequences) {
  RETURN_IF_ERROR(Forward(work, sequences).status());
  BackwardArgs backward;
  backward.gradients = gradients_[0].data();
  RETURN_IF_ERROR(
      executor_->LossAndBackward(micro_batch_.targets, backward).status());
  return ScanGradients(*model_, backend_, gradients_[0].data(), 0, count());
}

}  // namespace recurve
