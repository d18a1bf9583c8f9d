// Times of work on a GPU.
#ifndef RECURVE_TESTS_GPU_MEASURE_H_
#define RECURVE_TESTS_GPU_MEASURE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recurve::gpu {

// Microseconds of one turn of the work: over kSamples samples, each of as many
// turns back to back as fill kSampleMs, after one that does not count.
struct Timing {
  double median_us = 0;
  double min_us = 0;
  double max_us = 0;
};

inline constexpr int kSamples = 9;
inline constexpr double kSampleMs = 2.0;
inline constexpr int kMaxTurns = 200;

// What is timed, and the clock around it.
struct Work {
  std::function<absl::Status()> issue;  // one turn; may return before its end
  std::function<absl::Status()> begin;  // starts the clock
  // Waits for all turns; the milliseconds since `begin`.
  std::function<absl::StatusOr<double>()> end;
};

absl::StatusOr<Timing> Measure(const Work& work);

}  // namespace recurve::gpu

#endif  // RECURVE_TESTS_GPU_MEASURE_H_
