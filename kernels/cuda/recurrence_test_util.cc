#include "kernels/cuda/recurrence_test_util.h"

#include <numeric>

#include "absl/strings/str_cat.h"

namespace recurve::cuda {

std::vector<RecurrencePlan> PossiblePlans(const RecurrenceProblem& problem) {
  std::vector<RecurrencePlan> plans = {{false, 1, 64}};
  const int wide = static_cast<int>(16 / problem.element_bytes);
  if (MayVectorize(problem, wide)) plans.push_back({false, wide, 32});
  if (problem.recurrence != Recurrence::kSruForward) {
    plans.push_back({true, 1, kScanThreads});
  }
  return plans;
}

std::string Describe(const RecurrencePlan& plan) {
  return absl::StrCat(plan.scan ? "scan" : "serial", ", ", plan.vec,
                      " channels a thread");
}

std::vector<float> SumOfRows(const std::vector<float>& rows, int64_t cols) {
  std::vector<float> sums(cols, 0.0f);
  for (size_t i = 0; i < rows.size(); ++i) sums[i % cols] += rows[i];
  return sums;
}

std::vector<double> IdentityMatrix(int64_t size) {
  std::vector<double> matrix(size * size, 0.0);
  for (int64_t i = 0; i < size; ++i) matrix[i * size + i] = 1.0;
  return matrix;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> RandomMask(int64_t count, uint32_t seed, double kept) {
  std::vector<double> mask = RandomValues(count, seed);
  for (double& value : mask) value = value > -0.5 ? kept : 0.0;
  return mask;
}

}  // namespace recurve::cuda
