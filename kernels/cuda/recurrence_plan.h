// How a recurrence is cut for a GPU: a pure function of the shape, never of the
// device at hand, so that every device of a kind gives the same bits.
#ifndef RECURVE_KERNELS_CUDA_RECURRENCE_PLAN_H_
#define RECURVE_KERNELS_CUDA_RECURRENCE_PLAN_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace recurve::cuda {

enum class Recurrence {
  kSruForward,
  kSruBackward,
  kQrnnForward,
  kQrnnBackward,
};

struct RecurrenceProblem {
  Recurrence recurrence = Recurrence::kSruForward;
  int64_t num_sequences = 0;   // B
  int64_t num_rows = 0;        // N
  int64_t hidden_size = 0;     // H
  int64_t num_directions = 1;  // D
  int64_t element_bytes = 4;   // of an activation in memory
  // Every address and every row stride in bytes that the kernel goes by, or-ed.
  uint64_t address_bits = 0;
};

struct RecurrencePlan {
  // A chunked scan along time instead of one thread a walk. SRU's forward pass
  // never scans: its gates read the state, so it is not linear in it.
  bool scan = false;
  // Neighbouring channels of a thread: 1, or as many as 16 bytes hold.
  int vec = 1;
  // Threads in a block. A scan's is kScanThreads.
  int block = 128;
};

// The most steps that one turn of a scan's block takes, 16 warps by 4 steps.
inline constexpr int kScanWarps = 16;
inline constexpr int kScanSteps = 4;
inline constexpr int kScanThreads = 32 * kScanWarps;

// The largest block of a serial walk.
inline constexpr int kMaxWalkThreads = 128;

// Scans want this many steps in the mean: one turn of a block.
inline constexpr int64_t kMinScanSteps = kScanWarps * kScanSteps;
// From here on one thread a channel keeps the memory of the largest chip busy.
inline constexpr int64_t kEnoughChannels = 16384;
// Threads that keep it busy with 16-byte accesses, a few steps ahead.
inline constexpr int64_t kEnoughVectorThreads = 16384;

RecurrencePlan PlanRecurrence(const RecurrenceProblem& problem);

// Whether 16-byte accesses of `vec` channels stay on 16-byte boundaries.
bool MayVectorize(const RecurrenceProblem& problem, int vec);

// A matrix's part of address_bits; nothing if it is absent.
template <typename T>
uint64_t AddressBits(const Matrix<T>& m) {
  if (!m) return 0;
  return reinterpret_cast<uintptr_t>(m.data) |
         static_cast<uint64_t>(m.stride) * sizeof(T);
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_RECURRENCE_PLAN_H_
