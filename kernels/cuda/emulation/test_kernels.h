// Small kernels with and without faults, for the tests of the emulation. y has
// n elements, and n threads run, one block unless said.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_TEST_KERNELS_H_
#define RECURVE_KERNELS_CUDA_EMULATION_TEST_KERNELS_H_

#include "kernels/cuda/portable.h"

namespace recurve::cuda::emulation {

// y[i] += a * x[i], blocks of 64 threads.
struct AxpyParameters {
  int n;
  float a;
  const float* x;
  float* y;
};
cudaError_t Axpy(const AxpyParameters& parameters, cudaStream_t stream);

// A kernel of one kind of its template parameter.
struct TestParameters {
  int n;
  float* y;
  const float* x = nullptr;
};

// The block's threads shift x by one place through shared memory.
cudaError_t Shift(const TestParameters& p, cudaStream_t stream);
// The same without its barrier.
cudaError_t ShiftWithoutBarrier(const TestParameters& p, cudaStream_t stream);
// y[i] = the sum of x over i's warp, by shuffles.
cudaError_t WarpSum(const TestParameters& p, cudaStream_t stream);
// y[i] = how many of x are positive, by __syncthreads_count.
cudaError_t CountPositive(const TestParameters& p, cudaStream_t stream);
// y[i] = the number of the warp's vote of x > 0.
cudaError_t Vote(const TestParameters& p, cudaStream_t stream);
// y[i] = x[lane - 1], then [lane + 1], [lane ^ 1], [0] in groups of 8 lanes:
// y has 4 n elements.
cudaError_t Shuffles(const TestParameters& p, cudaStream_t stream);
// y[i] = a 64-bit shuffle's and the integer atomics' results: 1 if right.
cudaError_t IntegerOperations(const TestParameters& p, cudaStream_t stream);

// --- faults ---

enum class Mistake {
  kWriteBehindEnd,     // y[n]
  kWriteFarBehindEnd,  // y[n + 10000]
  kWriteBeforeBegin,   // y[-1]
  kReadBehindEnd,      // y[0] = x[n]
  kSharedIndex,        // an array's index outside it
  kSharedPointer,      // the same through a pointer
  kTooMuchSharedMemory,
  kDivergentBarrier,       // two barriers for two halves
  kReturnBeforeBarrier,    // thread 0 returns
  kBarrierAgainstShuffle,  // half the warp in each
  kMaskWithoutSelf,
  kMaskNamesReturnedLane,
  kMaskNamesAbsentLane,  // n < 32
  kMasksDisagree,
  kLinesDisagree,
  kShuffleFromOutsideMask,  // y = what comes
  kTailUnwritten,           // y[n - 1] is left
  kMisaligned,              // float4 at y + 1
  kUnwrittenShared,         // y = what a shared array holds at first
};
cudaError_t MakeMistake(Mistake mistake, const TestParameters& p,
                        cudaStream_t stream);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_TEST_KERNELS_H_
