#include "tests/gpu/measure.h"

#include <algorithm>
#include <vector>

#include "kernels/status.h"

namespace recurve::gpu {
namespace {

absl::StatusOr<double> Milliseconds(const Work& work, int turns) {
  RETURN_IF_ERROR(work.begin());
  for (int i = 0; i < turns; ++i) RETURN_IF_ERROR(work.issue());
  return work.end();
}

}  // namespace

absl::StatusOr<Timing> Measure(const Work& work) {
  // Three turns: a plan may be recorded in the second one.
  RETURN_IF_ERROR(Milliseconds(work, 3).status());
  ASSIGN_OR_RETURN(const double once, Milliseconds(work, 1));
  const int turns = static_cast<int>(
      std::clamp(kSampleMs / std::max(once, 1e-3), 1.0, double{kMaxTurns}));
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) {
    ASSIGN_OR_RETURN(const double ms, Milliseconds(work, turns));
    samples.push_back(1e3 * ms / turns);
  }
  std::sort(samples.begin(), samples.end());
  return Timing{samples[kSamples / 2], samples.front(), samples.back()};
}

}  // namespace recurve::gpu
