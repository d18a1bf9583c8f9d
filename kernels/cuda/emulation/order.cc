#include "kernels/cuda/emulation/order.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>

namespace recurve::cuda::emulation {
namespace {

ThreadOrder OrderFromEnvironment() {
  const char* name = std::getenv("RECURVE_CUDA_ORDER");
  if (name == nullptr) return ThreadOrder::kMixed;
  if (std::strcmp(name, "forward") == 0) return ThreadOrder::kForward;
  if (std::strcmp(name, "reverse") == 0) return ThreadOrder::kReverse;
  if (std::strcmp(name, "random") == 0) return ThreadOrder::kRandom;
  return ThreadOrder::kMixed;
}

uint64_t SeedFromEnvironment() {
  const char* text = std::getenv("RECURVE_CUDA_SEED");
  uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10)
                                  : std::random_device{}();
  std::fprintf(stderr, "CUDA emulation: RECURVE_CUDA_SEED=%llu\n",
               static_cast<unsigned long long>(seed));
  return seed;
}

struct State {
  std::mutex mutex;
  ThreadOrder order = OrderFromEnvironment();
  uint64_t seed = SeedFromEnvironment();
  std::mt19937_64 generator{seed};
};

State& GetState() {
  static State* state = new State;
  return *state;
}

}  // namespace

void SetThreadOrder(ThreadOrder order) {
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  state.order = order;
}

void SeedOrder(uint64_t seed) {
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  state.seed = seed;
  state.generator.seed(seed);
}

uint64_t Draw(uint64_t bound) {
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  return state.generator() % bound;
}

ThreadOrder DrawGridOrder() {
  ThreadOrder order;
  {
    State& state = GetState();
    std::lock_guard lock(state.mutex);
    order = state.order;
  }
  return order == ThreadOrder::kMixed ? static_cast<ThreadOrder>(Draw(3))
                                      : order;
}

void Arrange(ThreadOrder order, std::span<int> numbers) {
  if (order == ThreadOrder::kReverse) {
    std::reverse(numbers.begin(), numbers.end());
  }
  if (order != ThreadOrder::kRandom) return;
  State& state = GetState();
  std::lock_guard lock(state.mutex);
  std::shuffle(numbers.begin(), numbers.end(), state.generator);
}

std::string Describe(ThreadOrder order) {
  static const char* const kNames[] = {"forward", "reverse", "random", "mixed"};
  return std::string(kNames[static_cast<int>(order)]) +
         " order, RECURVE_CUDA_SEED=" + std::to_string(GetState().seed);
}

}  // namespace recurve::cuda::emulation
