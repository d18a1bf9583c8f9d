#include "kernels/random.h"

namespace recurve {
namespace {

uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

RandomBlock Philox(RandomBlock counter, std::array<uint32_t, 2> key) {
  auto [x0, x1, x2, x3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxMultipliers[0]} * x0;
    const uint64_t p1 = uint64_t{kPhiloxMultipliers[1]} * x2;
    x0 = High(p1) ^ x1 ^ k0;
    x1 = Low(p1);
    x2 = High(p0) ^ x3 ^ k1;
    x3 = Low(p0);
    k0 += kPhiloxKeySteps[0];
    k1 += kPhiloxKeySteps[1];
  }
  return {x0, x1, x2, x3};
}

std::array<uint32_t, 2> StreamKey(const RandomKey& key) {
  // The fields are longer than one counter: the second evaluation is keyed by
  // the first.
  const RandomBlock step =
      Philox({static_cast<uint32_t>(key.purpose), Low(key.step), High(key.step),
              /*unused*/ 0},
             {Low(key.seed), High(key.seed)});
  const RandomBlock stream =
      Philox({key.accumulation, key.layer, 0, 0}, {step[0], step[1]});
  return {stream[0], stream[1]};
}

}  // namespace recurve
