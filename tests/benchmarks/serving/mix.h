// The sequences that a load is made of.
#ifndef RECURVE_TESTS_BENCHMARKS_SERVING_MIX_H_
#define RECURVE_TESTS_BENCHMARKS_SERVING_MIX_H_

#include <cstdint>
#include <vector>

namespace recurve::serving {

struct MixOptions {
  int64_t count = 512;  // different sequences
  // Lengths are log-uniform from min to max; equal numbers: all are that long.
  int64_t min_length = 64;
  int64_t max_length = 64;
  int32_t vocabulary_size = 256;
};

using Mix = std::vector<std::vector<int32_t>>;  // tokens of each sequence

// The same for the same options: `count` lengths evenly spread over the
// distribution, in random order.
Mix MakeMix(const MixOptions& options);

}  // namespace recurve::serving

#endif  // RECURVE_TESTS_BENCHMARKS_SERVING_MIX_H_
