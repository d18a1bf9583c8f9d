#include "client/cpp/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace recurve {

Sampler::Sampler(double temperature, uint64_t seed)
    : temperature_(temperature), random_(seed) {}

int32_t Sampler::Draw(absl::Span<const float> logits) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const auto best = static_cast<int32_t>(largest - logits.begin());
  if (temperature_ == 0) return best;
  std::vector<double> cumulative(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    sum += std::exp((double{logits[i]} - *largest) / temperature_);
    cumulative[i] = sum;
  }
  // 53 random bits: the standard's distributions differ between libraries.
  const double point = static_cast<double>(random_() >> 11) * 0x1p-53 * sum;
  const auto found =
      std::upper_bound(cumulative.begin(), cumulative.end(), point);
  return found == cumulative.end()
             ? best
             : static_cast<int32_t>(found - cumulative.begin());
}

}  // namespace recurve
