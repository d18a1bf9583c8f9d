// Times of many calls, and what is said of them.
#ifndef RECURVE_TESTS_BENCHMARKS_SERVING_LATENCIES_H_
#define RECURVE_TESTS_BENCHMARKS_SERVING_LATENCIES_H_

#include <vector>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace recurve::serving {

class Latencies {
 public:
  void Add(absl::Duration latency) {
    us_.push_back(absl::ToDoubleMicroseconds(latency));
  }
  void Append(const Latencies& more) {
    us_.insert(us_.end(), more.us_.begin(), more.us_.end());
  }
  // {"count", "p50_us", "p99_us", "max_us"}; the times are missing without any.
  nlohmann::json Summary() const;

 private:
  std::vector<double> us_;
};

}  // namespace recurve::serving

#endif  // RECURVE_TESTS_BENCHMARKS_SERVING_LATENCIES_H_
