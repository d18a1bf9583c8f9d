// How far two tensors are apart.
#ifndef RECURVE_TESTS_GOLDEN_COMPARISON_H_
#define RECURVE_TESTS_GOLDEN_COMPARISON_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace recurve::golden {

// max|a - b| / max(max|b|, 1); infinite if there is a NaN.
template <typename Reference>
double Error(const std::vector<float>& a, const std::vector<Reference>& b) {
  double difference = 0, largest = 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(d)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference / largest;
}

// The worst tensor of a kind.
struct WorstError {
  double error = 0;
  std::string tensor;

  void Note(const std::string& name, double other) {
    if (other > error || tensor.empty()) *this = {other, name};
  }
};

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_COMPARISON_H_
