// In which order the emulation lets things happen that a GPU may do in any
// order: threads between barriers, blocks of a grid, work of different streams.
//
// One generator decides. Its seed is printed when it is first used:
// RECURVE_CUDA_SEED=<seed> repeats a run of one host thread. The threads' order
// is RECURVE_CUDA_ORDER=forward, reverse, random or mixed (the default: each
// grid draws one of the three).
//
// Thread safety: the functions but SetThreadOrder and SeedOrder are called
// under the runtime's lock.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_ORDER_H_
#define RECURVE_KERNELS_CUDA_EMULATION_ORDER_H_

#include <cstdint>
#include <span>
#include <string>

namespace recurve::cuda::emulation {

enum class ThreadOrder { kForward, kReverse, kRandom, kMixed };

void SetThreadOrder(ThreadOrder order);
void SeedOrder(uint64_t seed);

// The order of the next grid: never kMixed.
ThreadOrder DrawGridOrder();
// Reorders ascending numbers.
void Arrange(ThreadOrder order, std::span<int> numbers);
// A number in [0, bound).
uint64_t Draw(uint64_t bound);
// "forward order, RECURVE_CUDA_SEED=5", for messages.
std::string Describe(ThreadOrder order);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_ORDER_H_
