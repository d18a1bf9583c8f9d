// Counter-based random numbers (Philox4x32-10, Salmon et al., SC'11): a number
// is a pure function of what it is for, never of who asked first. This is what
// makes dropout independent of devices, threads and interruptions.
#ifndef RECURVE_KERNELS_RANDOM_H_
#define RECURVE_KERNELS_RANDOM_H_

#include <array>
#include <cstdint>

namespace recurve {

enum class RandomPurpose : uint32_t {
  kInitialize = 1,
  kShuffle = 2,
  kDropout = 3,       // plain: a new value each row
  kCellDropout = 4,   // SRU m_c, variational
  kInputDropout = 5,  // SRU m_in (rnn_dropout), variational
  kZoneout = 6,
  kSample = 7,
};

// What one stream of numbers belongs to.
struct RandomKey {
  uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::kInitialize;
  uint64_t step = 0;          // optimizer step, or epoch
  uint32_t accumulation = 0;  // index of the call within the optimizer step
  uint32_t layer = 0;
};

using RandomBlock = std::array<uint32_t, 4>;

// Philox4x32-10's constants, for code that evaluates many counters at once.
inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultipliers[2] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxKeySteps[2] = {0x9E3779B9, 0xBB67AE85};

// One Philox4x32-10 evaluation.
RandomBlock Philox(RandomBlock counter, std::array<uint32_t, 2> key);

// The 64-bit Philox key of a stream: Philox of the fields under the seed.
std::array<uint32_t, 2> StreamKey(const RandomKey& key);

// Uniform in [0, 1) with 24 bits.
inline float UniformFloat(uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

}  // namespace recurve

#endif  // RECURVE_KERNELS_RANDOM_H_
