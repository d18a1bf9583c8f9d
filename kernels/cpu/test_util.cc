#include "kernels/cpu/test_util.h"

#include <omp.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace recurve::cpu {
namespace {

// Bits, so that NaN equals itself and 0 is not -0.
std::vector<uint32_t> BitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  if (!values.empty()) {
    std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  }
  return bits;
}

}  // namespace

std::vector<float> RandomFloats(int64_t count, uint32_t seed, float bound) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-bound, bound);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

float ToBfloat16(float value) {
  int exponent;
  const double mantissa = std::frexp(value, &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
}

std::vector<int64_t> RandomCuSeqlens(int64_t num_sequences, int64_t max_length,
                                     uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> cu_seqlens = {0};
  for (int64_t b = 0; b < num_sequences; ++b) {
    const int64_t length = b % 3 == 1 ? 0 : random() % (max_length + 1);
    cu_seqlens.push_back(cu_seqlens.back() + length);
  }
  return cu_seqlens;
}

void ExpectSameForAnyThreads(const std::function<std::vector<float>()>& run) {
  const int threads_before = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<uint32_t> expected = BitsOf(run());
  for (int threads = 2; threads <= 4; ++threads) {
    omp_set_num_threads(threads);
    EXPECT_EQ(BitsOf(run()), expected) << threads << " threads";
  }
  omp_set_num_threads(threads_before);
}

void ForEachInstructionSet(const std::function<void()>& f) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

void ExpectSameOnAnyInstructionSet(
    const std::function<std::vector<float>()>& run) {
  const std::vector<uint32_t> expected = BitsOf(run());
  ForEachInstructionSet([&] { EXPECT_EQ(BitsOf(run()), expected); });
}

}  // namespace recurve::cpu
