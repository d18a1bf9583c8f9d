#include "engine/data/shuffle.h"

#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/random.h"

namespace recurve {
namespace {

// Number `index` of the stream, uniform in [0, bound): 64 random bits modulo
// bound, redrawn where they lie in the incomplete last run of residues.
uint64_t Bounded(const std::array<uint32_t, 2>& key, uint64_t index,
                 uint64_t bound) {
  const uint64_t rejected = (0 - bound) % bound;  // 2^64 mod bound
  for (uint32_t attempt = 0;; ++attempt) {
    const RandomBlock block =
        Philox({static_cast<uint32_t>(index),
                static_cast<uint32_t>(index >> 32), attempt, 0},
               key);
    const uint64_t bits = uint64_t{block[1]} << 32 | block[0];
    if (bits >= rejected) return bits % bound;
  }
}

}  // namespace

std::vector<int64_t> Permutation(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  const auto key = StreamKey({.seed = seed,
                              .purpose = RandomPurpose::kShuffle,
                              .step = static_cast<uint64_t>(epoch)});
  for (uint64_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[Bounded(key, i - 1, i)]);
  }
  return order;
}

}  // namespace recurve
