// Draws tokens from logits. The same seed draws the same tokens on every
// machine.
#ifndef RECURVE_CLIENT_CPP_SAMPLER_H_
#define RECURVE_CLIENT_CPP_SAMPLER_H_

#include <cstdint>
#include <random>

#include "absl/types/span.h"

namespace recurve {

class Sampler {
 public:
  // Logits are divided by `temperature` (>= 0); 0 always takes the largest, the
  // first of equals.
  Sampler(double temperature, uint64_t seed);

  // An index into `logits`, which are finite and not empty.
  int32_t Draw(absl::Span<const float> logits);

 private:
  const double temperature_;
  std::mt19937_64 random_;
};

}  // namespace recurve

#endif  // RECURVE_CLIENT_CPP_SAMPLER_H_
