// One golden file: the module that its metadata describes is built as a model,
// run by the engine's own executor, and compared with what the library gave.
#ifndef RECURVE_TESTS_GOLDEN_GOLDEN_CASE_H_
#define RECURVE_TESTS_GOLDEN_GOLDEN_CASE_H_

#include <string>

#include "kernels/backend.h"
#include "tests/golden/comparison.h"

namespace recurve::golden {

// Largest permitted errors.
inline constexpr double kOutputTolerance = 1e-5;  // and states
inline constexpr double kGradientTolerance = 2e-5;

struct CaseResult {
  enum class Outcome { kPassed, kFailed, kSkipped };
  Outcome outcome = Outcome::kFailed;
  WorstError outputs;
  WorstError states;
  WorstError gradients;
  std::string reason;  // of failing or skipping
};

CaseResult RunCase(const std::string& path, Backend& backend);

// "outputs 1.2e-07  states 0.0e+00  gradients 3.4e-07", or the reason.
std::string Describe(const CaseResult& result);

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_GOLDEN_CASE_H_
