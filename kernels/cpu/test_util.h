// Helpers for tests of CPU kernels.
#ifndef RECURVE_KERNELS_CPU_TEST_UTIL_H_
#define RECURVE_KERNELS_CPU_TEST_UTIL_H_

#include <cstdint>
#include <functional>
#include <vector>

namespace recurve::cpu {

// Floats in [-bound, bound], the same for the same seed.
std::vector<float> RandomFloats(int64_t count, uint32_t seed,
                                float bound = 1.0f);

// The bf16 nearest to a normal number; of two, the even one.
float ToBfloat16(float value);

// A random cut of rows into sequences, some of length zero: cu_seqlens.
std::vector<int64_t> RandomCuSeqlens(int64_t num_sequences, int64_t max_length,
                                     uint32_t seed);

// Expects that run() gives the same bits with 1, 2, 3 and 4 OpenMP threads.
void ExpectSameForAnyThreads(const std::function<std::vector<float>()>& run);

// Calls f with each instruction set that this machine has as the one that
// HWY_DYNAMIC_DISPATCH chooses.
void ForEachInstructionSet(const std::function<void()>& f);

// Expects that run() gives the same bits on each of them.
void ExpectSameOnAnyInstructionSet(
    const std::function<std::vector<float>()>& run);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_TEST_UTIL_H_
