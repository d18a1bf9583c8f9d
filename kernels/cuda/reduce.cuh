// Sums and maxima over the threads of a warp or a block, in an order that is
// always the same. Every thread of the warp or block must call, and every one
// gets the result.
#ifndef RECURVE_KERNELS_CUDA_REDUCE_CUH_
#define RECURVE_KERNELS_CUDA_REDUCE_CUH_

#include <cstdint>

#include "kernels/cuda/portable.h"
#include "kernels/cuda/rows.cuh"

namespace recurve::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Plus {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// Of floats: a NaN loses against a number.
struct Larger {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a < b || a != a ? b : a;
  }
};

// Both partners of a step compute the same, as `combine` is commutative.
template <typename T, typename Combine>
__device__ inline T WarpReduce(T value, const Combine& combine) {
#pragma unroll
  for (int step = kWarpLanes / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, step));
  }
  return value;
}

// Warps are combined in ascending order.
template <typename T, typename Combine>
__device__ inline T BlockReduce(T value, const Combine& combine) {
  RECURVE_SHARED(T, of_warp, kBlockWarps);
  value = WarpReduce(value, combine);
  if (Lane() == 0) of_warp[WarpOfBlock()] = value;
  __syncthreads();
  T result = of_warp[0];
#pragma unroll
  for (int w = 1; w < kBlockWarps; ++w) result = combine(result, of_warp[w]);
  __syncthreads();  // before a later call writes
  return result;
}

// For kernels whose rows go to one warp (kThreads == 32) or a whole block.
template <int kThreads, typename T, typename Combine>
__device__ inline T GroupReduce(T value, const Combine& combine) {
  static_assert(kThreads == kWarpLanes || kThreads == kBlockThreads);
  if constexpr (kThreads == kWarpLanes) {
    return WarpReduce(value, combine);
  } else {
    return BlockReduce(value, combine);
  }
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_REDUCE_CUH_
