#include "kernels/cuda/emulation/test_kernels.h"
#include "kernels/cuda/launch.h"

namespace recurve::cuda::emulation {
namespace {

constexpr int kMaxThreads = 256;
constexpr unsigned kAll = 0xffffffffu;

template <int kBlock>
__global__ void __launch_bounds__(kBlock) AxpyKernel(const AxpyParameters p) {
  int i = blockIdx.x * kBlock + threadIdx.x;
  if (i < p.n) p.y[i] += p.a * p.x[i];
}

template <bool kBarrier>
__global__ void ShiftKernel(const TestParameters p) {
  RECURVE_SHARED(float, tile, kMaxThreads);
  int i = threadIdx.x;
  tile[i] = p.x[i];
  if constexpr (kBarrier) __syncthreads();
  p.y[i] = i == 0 ? 0.0f : tile[i - 1];
}

__global__ void WarpSumKernel(const TestParameters p) {
  float sum = p.x[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(kAll, sum, offset);
  }
  p.y[threadIdx.x] = sum;
}

__global__ void CountPositiveKernel(const TestParameters p) {
  int i = threadIdx.x;
  int count = __syncthreads_count(p.x[i] > 0.0f);
  int all = __syncthreads_and(p.x[i] > 0.0f);
  int any = __syncthreads_or(p.x[i] > 0.0f);
  p.y[i] = all == (count == p.n) && any == (count > 0) ? count : -1.0f;
}

__global__ void VoteKernel(const TestParameters p) {
  int i = threadIdx.x;
  unsigned vote = __ballot_sync(kAll, p.x[i] > 0.0f);
  int any = __any_sync(kAll, p.x[i] > 0.0f);
  int all = __all_sync(kAll, p.x[i] > 0.0f);
  p.y[i] = any == (vote != 0) && all == (vote == kAll) ? vote : -1.0f;
}

__global__ void ShufflesKernel(const TestParameters p) {
  int i = threadIdx.x;
  float x = p.x[i];
  float results[] = {
      __shfl_up_sync(kAll, x, 1, 8), __shfl_down_sync(kAll, x, 1, 8),
      __shfl_xor_sync(kAll, x, 1, 8), __shfl_sync(kAll, x, 0, 8)};
  for (int k = 0; k < 4; ++k) p.y[k * p.n + i] = results[k];
}

__global__ void IntegerOperationsKernel(const TestParameters p) {
  RECURVE_SHARED(int, counters, 2);
  int i = threadIdx.x;
  if (i == 0) counters[0] = counters[1] = 0;
  __syncthreads();
  atomicAdd(&counters[0], 2);
  atomicMax(&counters[1], i);
  unsigned long long wide = 1ull << (i % 32 + 20);
  bool good = __shfl_sync(kAll, wide, 31) == 1ull << 51;
  __syncthreads();
  good &= counters[0] == 2 * p.n && counters[1] == p.n - 1;
  p.y[i] = good;
}

// --- faults ---

template <Mistake kMistake>
__device__ void MemoryMistake(const TestParameters& p) {
  int i = threadIdx.x;
  if (kMistake == Mistake::kWriteBehindEnd) p.y[i + 1] = 1.0f;
  if (kMistake == Mistake::kWriteFarBehindEnd) p.y[i + 10000] = 1.0f;
  if (kMistake == Mistake::kWriteBeforeBegin) p.y[i - 1] = 1.0f;
  if (kMistake == Mistake::kReadBehindEnd) p.y[i] = p.x[i + 1];
  if (kMistake == Mistake::kTailUnwritten && i + 1 < p.n) p.y[i] = 1.0f;
  if (kMistake == Mistake::kMisaligned) {
    *reinterpret_cast<float4*>(p.y + 1) = make_float4(1, 2, 3, 4);
  }
}

template <Mistake kMistake>
__device__ void SharedMistake(const TestParameters& p) {
  RECURVE_SHARED(float, tile, 31);
  int i = threadIdx.x;
  if (kMistake == Mistake::kSharedIndex) tile[i] = 1.0f;
  if (kMistake == Mistake::kSharedPointer) {
    float* pointer = tile;
    pointer[i] = 1.0f;
  }
  if (kMistake == Mistake::kUnwrittenShared) p.y[i] = tile[0];
}

__device__ void UseTooMuchSharedMemory() {
  RECURVE_SHARED(float, large, 12000);
  RECURVE_SHARED(float, more, 300);
  large[0] = more[0] = 0.0f;
}

template <Mistake kMistake>
__device__ void BarrierMistake() {
  int i = threadIdx.x;
  if (kMistake == Mistake::kDivergentBarrier) {
    if (i < 16) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  }
  if (kMistake == Mistake::kReturnBeforeBarrier) {
    if (i == 0) return;
    __syncthreads();
  }
  if (kMistake == Mistake::kBarrierAgainstShuffle) {
    if (i < 16) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }
}

template <Mistake kMistake>
__device__ void WarpMistake(const TestParameters& p) {
  int i = threadIdx.x;
  if (kMistake == Mistake::kMaskWithoutSelf) __syncwarp(0xffff);
  if (kMistake == Mistake::kMaskNamesReturnedLane) {
    if (i == 3) return;
    __syncwarp();
  }
  if (kMistake == Mistake::kMaskNamesAbsentLane) __syncwarp();
  if (kMistake == Mistake::kMasksDisagree) __syncwarp(i < 31 ? kAll : 1u << 31);
  if (kMistake == Mistake::kLinesDisagree) {
    if (i < 16) {
      __syncwarp();
    } else {
      __syncwarp();
    }
  }
  if (kMistake == Mistake::kShuffleFromOutsideMask && i < 16) {
    p.y[i] = __shfl_sync(0xffff, p.x[i], i + 1);
  }
}

template <Mistake kMistake>
__global__ void MistakeKernel(const TestParameters p) {
  MemoryMistake<kMistake>(p);
  SharedMistake<kMistake>(p);
  if (kMistake == Mistake::kTooMuchSharedMemory) UseTooMuchSharedMemory();
  BarrierMistake<kMistake>();
  WarpMistake<kMistake>(p);
}

template <Mistake kMistake>
cudaError_t Launch(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<MistakeKernel<kMistake>>(1, p.n, stream, p);
}

}  // namespace

// --- launchers ---

cudaError_t Axpy(const AxpyParameters& parameters, cudaStream_t stream) {
  return cuda::Launch<AxpyKernel<64>>((parameters.n + 63) / 64, 64, stream,
                                      parameters);
}

cudaError_t Shift(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<ShiftKernel<true>>(1, p.n, stream, p);
}

cudaError_t ShiftWithoutBarrier(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<ShiftKernel<false>>(1, p.n, stream, p);
}

cudaError_t WarpSum(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<WarpSumKernel>(1, p.n, stream, p);
}

cudaError_t CountPositive(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<CountPositiveKernel>(1, p.n, stream, p);
}

cudaError_t Vote(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<VoteKernel>(1, p.n, stream, p);
}

cudaError_t Shuffles(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<ShufflesKernel>(1, p.n, stream, p);
}

cudaError_t IntegerOperations(const TestParameters& p, cudaStream_t stream) {
  return cuda::Launch<IntegerOperationsKernel>(1, p.n, stream, p);
}

cudaError_t MakeMistake(Mistake mistake, const TestParameters& p,
                        cudaStream_t stream) {
  switch (mistake) {
#define RECURVE_MISTAKE(name) \
  case Mistake::name:         \
    return Launch<Mistake::name>(p, stream);
    RECURVE_MISTAKE(kWriteBehindEnd)
    RECURVE_MISTAKE(kWriteFarBehindEnd)
    RECURVE_MISTAKE(kWriteBeforeBegin)
    RECURVE_MISTAKE(kReadBehindEnd)
    RECURVE_MISTAKE(kSharedIndex)
    RECURVE_MISTAKE(kSharedPointer)
    RECURVE_MISTAKE(kTooMuchSharedMemory)
    RECURVE_MISTAKE(kDivergentBarrier)
    RECURVE_MISTAKE(kReturnBeforeBarrier)
    RECURVE_MISTAKE(kBarrierAgainstShuffle)
    RECURVE_MISTAKE(kMaskWithoutSelf)
    RECURVE_MISTAKE(kMaskNamesReturnedLane)
    RECURVE_MISTAKE(kMaskNamesAbsentLane)
    RECURVE_MISTAKE(kMasksDisagree)
    RECURVE_MISTAKE(kLinesDisagree)
    RECURVE_MISTAKE(kShuffleFromOutsideMask)
    RECURVE_MISTAKE(kTailUnwritten)
    RECURVE_MISTAKE(kMisaligned)
    RECURVE_MISTAKE(kUnwrittenShared)
#undef RECURVE_MISTAKE
  }
  return cudaErrorInvalidValue;
}

}  // namespace recurve::cuda::emulation
