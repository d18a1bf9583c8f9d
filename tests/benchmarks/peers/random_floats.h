// Numbers to compute with, where which does not matter.
#ifndef RECURVE_TESTS_BENCHMARKS_PEERS_RANDOM_FLOATS_H_
#define RECURVE_TESTS_BENCHMARKS_PEERS_RANDOM_FLOATS_H_

#include <cstdint>
#include <random>
#include <vector>

namespace recurve::peers {

// Uniform in [-1, 1].
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::minstd_rand random(seed + 1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

}  // namespace recurve::peers

#endif  // RECURVE_TESTS_BENCHMARKS_PEERS_RANDOM_FLOATS_H_
