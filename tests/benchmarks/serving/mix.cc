#include "tests/benchmarks/serving/mix.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace recurve::serving {

Mix MakeMix(const MixOptions& options) {
  std::mt19937 random(11);
  const double range = std::log(static_cast<double>(options.max_length) /
                                static_cast<double>(options.min_length));
  Mix mix(options.count);
  for (int64_t i = 0; i < options.count; ++i) {
    const double quantile =
        (static_cast<double>(i) + 0.5) / static_cast<double>(options.count);
    mix[i].resize(std::lround(static_cast<double>(options.min_length) *
                              std::exp(range * quantile)));
    for (int32_t& token : mix[i]) token = random() % options.vocabulary_size;
  }
  std::shuffle(mix.begin(), mix.end(), random);
  return mix;
}

}  // namespace recurve::serving
