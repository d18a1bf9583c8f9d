// How kernels walk the rows of matrices: a warp takes a row, its lanes take
// parts of kWideVec<S> neighbouring elements in turn. Which element goes to
// which lane never depends on alignment, so neither do the bits of sums.
#ifndef RECURVE_KERNELS_CUDA_ROWS_CUH_
#define RECURVE_KERNELS_CUDA_ROWS_CUH_

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/tensor.h"

namespace recurve::cuda {

inline constexpr int kWarpLanes = 32;
inline constexpr int kBlockThreads = 256;
inline constexpr int kBlockWarps = kBlockThreads / kWarpLanes;
// Loops take strides of the whole grid: more blocks than fill any device would
// only cost their starts.
inline constexpr int64_t kMaxBlocks = 2048;

// --- Device code ---

__device__ inline int Lane() { return threadIdx.x % kWarpLanes; }
__device__ inline int WarpOfBlock() { return threadIdx.x / kWarpLanes; }

// The rows of this warp: FirstRow(), then every RowStep()th.
__device__ inline int64_t FirstRow() {
  return static_cast<int64_t>(blockIdx.x) * kBlockWarps + WarpOfBlock();
}
__device__ inline int64_t RowStep() {
  return static_cast<int64_t>(gridDim.x) * kBlockWarps;
}

// Likewise for loops over contiguous elements.
__device__ inline int64_t FirstElement() {
  return static_cast<int64_t>(blockIdx.x) * kBlockThreads + threadIdx.x;
}
__device__ inline int64_t ElementStep() {
  return static_cast<int64_t>(gridDim.x) * kBlockThreads;
}

// kCount elements from `from` on, of which `left` are there; `fill` stands for
// the others. kAligned: `from` lies at a 16-byte boundary.
template <bool kAligned, int kCount, typename S>
__device__ inline void LoadPart(const S* from, int64_t left, float fill,
                                float (&values)[kCount]) {
  if (kAligned && left >= kCount) {
    const auto pack = Pack<S, kCount>::Load(from);
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = pack.Get(i);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = i < left ? ToFloat(from[i]) : fill;
  }
}

// Writes those of the kCount elements that are there.
template <bool kAligned, int kCount, typename S>
__device__ inline void StorePart(const float (&values)[kCount], int64_t left,
                                 S* to) {
  if (kAligned && left >= kCount) {
    auto pack = Pack<S, kCount>::Zeros();
#pragma unroll
    for (int i = 0; i < kCount; ++i) pack.Set(i, values[i]);
    pack.Store(to);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (i < left) to[i] = FromFloat<S>(values[i]);
  }
}

// Calls f(j) for the first column of each of this lane's parts of a row.
template <typename S, typename F>
__device__ inline void ForEachPart(int64_t cols, const F& f) {
  constexpr int kPart = kWideVec<S>;
  for (int64_t j = Lane() * kPart; j < cols; j += kWarpLanes * kPart) f(j);
}

// The sequence that owns a row: the first that ends after it.
__device__ inline int64_t SequenceOfRow(const SequenceLayout& layout,
                                        int64_t row) {
  int64_t low = 0, high = layout.num_sequences - 1;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (layout.cu_seqlens[middle + 1] > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// --- Launchers ---

// Whether 16-byte accesses are possible: everywhere in a contiguous array, or
// at every 16 bytes of every row. What is absent does not object.
inline bool IsWide(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0;
}
template <typename T>
bool IsWide(const Matrix<T>& m) {
  return !m || (IsWide(m.data) && m.stride * sizeof(T) % 16 == 0);
}

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A grid of blocks that cover `work` of which a block takes `per_block` at
// once.
inline dim3 GridOf(int64_t work, int64_t per_block) {
  const int64_t blocks = CeilDivide(work, per_block);
  return dim3(static_cast<unsigned>(blocks < kMaxBlocks ? blocks : kMaxBlocks));
}

// Launches kWide or kNarrow with a warp for each of `rows`.
template <auto kWide, auto kNarrow, typename Parameters>
cudaError_t LaunchRows(bool wide, int64_t rows, cudaStream_t stream,
                       const Parameters& p) {
  const dim3 grid = GridOf(rows, kBlockWarps);
  return wide ? Launch<kWide>(grid, kBlockThreads, stream, p)
              : Launch<kNarrow>(grid, kBlockThreads, stream, p);
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_ROWS_CUH_
