#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/pool.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

// One channel of one sequence, rows [begin, end), not empty.
template <typename S>
struct Column {
  const S* first;  // of row `begin`
  int64_t stride;
  int64_t begin, end;

  __device__ float operator[](int64_t r) const {
    return ToFloat(first[(r - begin) * stride]);
  }
};

template <typename S>
__device__ inline float Mean(const Column<S>& x) {
  double sum = 0.0;
#pragma unroll 4
  for (int64_t r = x.begin; r < x.end; ++r) sum += x[r];
  return static_cast<float>(sum / static_cast<double>(x.end - x.begin));
}

template <typename S>
__device__ inline float Max(const Column<S>& x, int32_t* argmax) {
  float best = x[x.begin];
  int64_t row = x.begin;
#pragma unroll 4
  for (int64_t r = x.begin + 1; r < x.end; ++r) {
    const float value = x[r];
    // The first NaN stays: nothing compares greater, nor equal, to it.
    const bool better = value > best || (value != value && best == best);
    best = better ? value : best;
    row = better ? r : row;
  }
  *argmax = static_cast<int32_t>(row);
  return best;
}

// A thread takes a channel of a sequence and walks along time.
template <typename S>
__global__ void __launch_bounds__(kBlockThreads)
    PoolForwardKernel(const PoolArgs<S> p) {
  const int64_t channels = p.y.cols;
  const int64_t count = p.layout.num_sequences * channels;
  for (int64_t i = FirstElement(); i < count; i += ElementStep()) {
    const int64_t b = i / channels, c = i % channels;
    const int64_t begin = p.layout.cu_seqlens[b];
    const int64_t end = p.layout.cu_seqlens[b + 1];
    float y = 0.0f;
    int32_t argmax = -1;
    if (begin < end) {
      const Column<S> x = {p.x.row(begin) + c, p.x.stride, begin, end};
      if (p.kind == PoolKind::kLast) y = x[end - 1];
      if (p.kind == PoolKind::kMean) y = Mean(x);
      if (p.kind == PoolKind::kMax) y = Max(x, &argmax);
    }
    p.y.row(b)[c] = FromFloat<S>(y);
    if (p.kind == PoolKind::kMax && p.argmax) p.argmax.row(b)[c] = argmax;
  }
}

template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    PoolBackwardKernel(const PoolArgs<S> p) {
  constexpr int kPart = kWideVec<S>;
  const int64_t cols = p.dx.cols;
  for (int64_t r = FirstRow(); r < p.dx.rows; r += RowStep()) {
    const int64_t b = SequenceOfRow(p.layout, r);
    const int64_t begin = p.layout.cu_seqlens[b];
    const int64_t end = p.layout.cu_seqlens[b + 1];
    const float length = static_cast<float>(end - begin);
    ForEachPart<S>(cols, [&](int64_t j) {
      float d[kPart];
      LoadPart<kAligned>(p.dy.row(b) + j, cols - j, 0.0f, d);
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        if (p.kind == PoolKind::kMean) d[i] = __fdiv_rn(d[i], length);
        if (p.kind == PoolKind::kLast && r + 1 != end) d[i] = 0.0f;
        if (p.kind == PoolKind::kMax && j + i < cols &&
            p.argmax.row(b)[j + i] != r) {
          d[i] = 0.0f;
        }
      }
      StorePart<kAligned>(d, cols - j, p.dx.row(r) + j);
    });
  }
}

}  // namespace

// --- Launchers ---

template <typename S>
cudaError_t PoolForward(const PoolArgs<S>& args, cudaStream_t stream) {
  const int64_t count = args.layout.num_sequences * args.y.cols;
  return Launch<PoolForwardKernel<S>>(GridOf(count, kBlockThreads),
                                      kBlockThreads, stream, args);
}

template <typename S>
cudaError_t PoolBackward(const PoolArgs<S>& args, cudaStream_t stream) {
  return LaunchRows<PoolBackwardKernel<S, true>, PoolBackwardKernel<S, false>>(
      IsWide(args.dy) && IsWide(args.dx), args.dx.rows, stream, args);
}

#define RECURVE_INSTANTIATE(S)                                        \
  template cudaError_t PoolForward(const PoolArgs<S>&, cudaStream_t); \
  template cudaError_t PoolBackward(const PoolArgs<S>&, cudaStream_t)
RECURVE_INSTANTIATE(float);
RECURVE_INSTANTIATE(BFloat16);
RECURVE_INSTANTIATE(Float16);
#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
