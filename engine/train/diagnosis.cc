#include "engine/train/diagnosis.h"

#include <algorithm>

#include "engine/model/places.h"
#include "kernels/status.h"

namespace recurve {
namespace {

using Found = std::vector<NotFiniteSequence>;

// The parts of the devices follow each other in the call.
Found FirstOf(const std::vector<Found>& parts) {
  Found first;
  for (const Found& part : parts) {
    first.insert(first.end(), part.begin(), part.end());
  }
  first.resize(std::min(first.size(), kMaxNotFiniteSequences));
  return first;
}

// What can be said where no sequence could be blamed: those that the first
// look blames, or all, of a sum that is not finite where its parts are.
Found Suspects(const CallWork& work, NotFinitePart part, int place) {
  Found suspects;
  for (int64_t i = 0; i < work.num_micro_batches(); ++i) {
    const Range sequences = work.micro_batches[i];
    const bool suspect = part == NotFinitePart::kGradient ||
                         work.outcomes[i] == Outcome::kNotFinite;
    for (int64_t b = sequences.begin; suspect && b < sequences.end; ++b) {
      if (suspects.size() == kMaxNotFiniteSequences) return suspects;
      suspects.push_back({b, place, true});
    }
  }
  return suspects;
}

int FirstPlace(const Found& found, NotFinitePart part) {
  const auto earlier = [](const auto& a, const auto& b) {
    return a.place < b.place;
  };
  return part == NotFinitePart::kGradient
             ? std::max_element(found.begin(), found.end(), earlier)->place
             : std::min_element(found.begin(), found.end(), earlier)->place;
}

const char* What(const Found& found, NotFinitePart part) {
  if (part == NotFinitePart::kGradient) return "gradient";
  const bool loss = std::any_of(found.begin(), found.end(),
                                [](const auto& one) { return one.loss; });
  return loss ? "loss" : "state";
}

}  // namespace

absl::StatusOr<NotFinite> Diagnose(
    const DeviceGroup& group, const Model& model,
    const std::vector<std::unique_ptr<DeviceReplica>>& replicas,
    const CallWork& work, NotFinitePart part) {
  int place = Places(model).loss();
  if (part == NotFinitePart::kGradient) {
    std::optional<int> in_sum;
    for (const auto& replica : replicas) {
      in_sum = std::max(in_sum, replica->not_finite_in_sum());
    }
    place = in_sum.value_or(place);
  }
  std::vector<Found> parts(replicas.size());
  RETURN_IF_ERROR(RunGang(
      group, GangKind::kIndependent, [&](int rank, Backend&) -> absl::Status {
        ASSIGN_OR_RETURN(parts[rank], replicas[rank]->Diagnose(work, part));
        return absl::OkStatus();
      }));
  Found found = FirstOf(parts);
  if (found.empty()) found = Suspects(work, part, place);
  if (!found.empty()) place = FirstPlace(found, part);

  NotFinite where;
  where.step = work.step;
  where.what = What(found, part);
  where.layer = Places(model).Name(place);
  for (const auto& one : found) where.sequences.push_back(one.sequence);
  return where;
}

}  // namespace recurve
