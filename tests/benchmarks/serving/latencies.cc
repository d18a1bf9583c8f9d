#include "tests/benchmarks/serving/latencies.h"

#include <algorithm>
#include <cstddef>

namespace recurve::serving {

nlohmann::json Latencies::Summary() const {
  nlohmann::json summary = {{"count", us_.size()}};
  if (us_.empty()) return summary;
  std::vector<double> sorted = us_;
  std::sort(sorted.begin(), sorted.end());
  const auto quantile = [&](double part) {
    return sorted[static_cast<size_t>(part *
                                      static_cast<double>(sorted.size() - 1))];
  };
  summary["p50_us"] = quantile(0.50);
  summary["p99_us"] = quantile(0.99);
  summary["max_us"] = sorted.back();
  return summary;
}

}  // namespace recurve::serving
