// Sums over the rows of a matrix without scratch memory: a block owns a few
// columns, 32 bytes wide, and walks all rows.
//
// The order depends on the number of rows alone: a thread adds its rows (every
// kSumLanes-th) of each block of kRowBlock rows, then these sums in the order
// of the blocks; at the end the threads of a column are added in a tree.
#ifndef RECURVE_KERNELS_CUDA_COLUMN_SUM_CUH_
#define RECURVE_KERNELS_CUDA_COLUMN_SUM_CUH_

#include <cstdint>

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// A narrow matrix gets few blocks: they are as large as they can be, and keep
// kRowBlock / kSumLanes loads in flight a thread.
inline constexpr int kSumThreads = 512;
template <typename S>
inline constexpr int kSumColumns = 32 / static_cast<int>(sizeof(S));
template <typename S>
inline constexpr int kSumLanes = kSumThreads / kSumColumns<S>;

// add(r, column, sums) adds row r's terms of a column to sums[kSums]. The
// totals come back in the threads below kSumColumns<S>, each of the column
// blockIdx.x * kSumColumns<S> + threadIdx.x. A block of kSumThreads calls.
template <typename S, int kSums, typename Add>
__device__ inline void SumColumns(int64_t rows, int64_t cols, const Add& add,
                                  float (&totals)[kSums]) {
  constexpr int kLanes = kSumLanes<S>;
  RECURVE_SHARED(float, shared, kSums* kSumThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread / kSumColumns<S>;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns<S> +
                         thread % kSumColumns<S>;
#pragma unroll
  for (int k = 0; k < kSums; ++k) totals[k] = 0.0f;
  for (int64_t first = 0; column < cols && first < rows; first += kRowBlock) {
    float sums[kSums] = {};
#pragma unroll 8
    for (int i = 0; i < kRowBlock / kLanes; ++i) {
      const int64_t r = first + i * kLanes + lane;
      if (r < rows) add(r, column, sums);
    }
#pragma unroll
    for (int k = 0; k < kSums; ++k) totals[k] += sums[k];
  }
#pragma unroll
  for (int k = 0; k < kSums; ++k) {
    shared[k * kSumThreads + thread] = totals[k];
  }
  for (int half = kSumThreads / 2; half >= kSumColumns<S>; half /= 2) {
    __syncthreads();
    if (thread >= half) continue;
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
      totals[k] += shared[k * kSumThreads + thread + half];
      shared[k * kSumThreads + thread] = totals[k];
    }
  }
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_COLUMN_SUM_CUH_
