#include "kernels/cuda/recurrence_plan.h"

#include <algorithm>
#include <cstdint>

namespace recurve::cuda {
namespace {

int WideVec(const RecurrenceProblem& problem) {
  return static_cast<int>(16 / problem.element_bytes);
}

int64_t Channels(const RecurrenceProblem& problem) {
  return problem.num_sequences * problem.num_directions * problem.hidden_size;
}

// A walk of one thread waits for memory a few steps ahead at a time, which is
// slow where too few threads wait. A scan asks for 64 steps at once, but its
// blocks meet at a barrier every turn.
bool ShouldScan(const RecurrenceProblem& problem) {
  return problem.recurrence != Recurrence::kSruForward &&
         Channels(problem) < kEnoughChannels &&
         problem.num_rows >= kMinScanSteps * problem.num_sequences;
}

// Few threads go in small blocks, so that every multiprocessor gets some.
int BlockThreads(int64_t threads) {
  constexpr int64_t kMultiprocessors = 128;
  int block = 32;
  while (block < kMaxWalkThreads && threads >= 2 * block * kMultiprocessors) {
    block *= 2;
  }
  return block;
}

}  // namespace

bool MayVectorize(const RecurrenceProblem& problem, int vec) {
  return problem.hidden_size % vec == 0 && problem.address_bits % 16 == 0;
}

RecurrencePlan PlanRecurrence(const RecurrenceProblem& problem) {
  if (ShouldScan(problem)) return {true, 1, kScanThreads};
  RecurrencePlan plan;
  const int wide = WideVec(problem);
  if (Channels(problem) >= wide * kEnoughVectorThreads &&
      MayVectorize(problem, wide)) {
    plan.vec = wide;
  }
  plan.block = BlockThreads(Channels(problem) / plan.vec);
  return plan;
}

}  // namespace recurve::cuda
