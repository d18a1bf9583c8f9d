// Runs the blocks of a grid one after the other, the threads of a block as
// fibres: a thread runs until it waits at a barrier or a warp operation, or
// returns. In which order threads and blocks take their turns is order.h's
// choice.
//
// One grid at a time runs in a process; the caller holds the lock of the
// runtime (stream.h).
#ifndef RECURVE_KERNELS_CUDA_EMULATION_BLOCK_H_
#define RECURVE_KERNELS_CUDA_EMULATION_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/cuda/emulation/fault.h"
#include "kernels/cuda/emulation/vector_types.h"

// The place of the running thread. Ordinary globals: one thread runs at a time.
inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;
inline constexpr int warpSize = 32;

namespace recurve::cuda::emulation {

// Calls body once for every thread of the grid. kernel: a name for messages.
void RunGrid(const char* kernel, dim3 grid, dim3 block,
             const std::function<void()>& body);

// "kernel, block, thread, order", or "" where no grid runs.
const char* RunningGrid();

// What follows is called by the threads of a running grid.

// Returns how many threads of the block gave a true predicate. Faults if the
// threads of the block wait at different places, or some have returned.
int BlockBarrier(bool predicate, Place place);

enum class WarpOperation { kBarrier, kVote, kShuffle };

// A lane's part in an operation of its warp: waits for every lane of mask.
// Faults if those lanes do not agree on operation, mask and place, or one of
// them has returned or is not in the block.
//   kVote: a bit set for each lane whose value is not 0.
//   kShuffle: value of lane source; all bits set if source is not in mask.
uint64_t WarpExchange(WarpOperation operation, unsigned mask, uint64_t value,
                      int source, Place place);
int LaneId();

// The block's shared array that belongs to key: exactly this many bytes, filled
// with 0xFF when a thread of the block first asks, with a guard behind it.
void* SharedArray(const void* key, size_t bytes);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_BLOCK_H_
