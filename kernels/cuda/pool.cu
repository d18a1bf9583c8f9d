#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/pool.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

// One channel of one sequence, rows [begin, end).
template <typename S>
struct Column {
  const S* first;  // of row `begin`
  int64_t stride;
  int64_t begin, end;

  __device__ float operator[](int64_t r) const {
    return ToFloat(first[(r - begin) * stride]);
  }
};

// Of the rows before, `length` - (end - begin), and these.
template <typename S>
__device__ inline float Mean(const Column<S>& x, int64_t length,
                             double* carried) {
  double sum = carried ? *carried : 0.0;
#pragma unroll 4
  for (int64_t r = x.begin; r < x.end; ++r) sum += x[r];
  if (carried) *carried = sum;
  return static_cast<float>(sum / static_cast<double>(length));
}

// `best` is the largest of the rows before, or the first of these.
template <typename S>
__device__ inline float Max(const Column<S>& x, float best, int32_t* argmax) {
  int64_t row = x.begin;
#pragma unroll 4
  for (int64_t r = x.begin; r < x.end; ++r) {
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
    const int64_t before = p.carry ? *p.carry.rows.row(b) : 0;
    const int64_t length = before + (end - begin);
    float y = 0.0f;
    int32_t argmax = -1;
    if (length > 0) {
      const Column<S> x = {p.x.row(begin) + c, p.x.stride, begin, end};
      if (p.kind == PoolKind::kLast) y = x[end - 1];
      if (p.kind == PoolKind::kMean) {
        y = Mean(x, length, p.carry ? p.carry.sums.row(b) + c : nullptr);
      }
      if (p.kind == PoolKind::kMax) {
        y = Max(x, before > 0 ? p.carry.maxima.row(b)[c] : x[begin], &argmax);
        if (p.carry) p.carry.maxima.row(b)[c] = y;
      }
    }
    p.y.row(b)[c] = FromFloat<S>(y);
    if (p.kind == PoolKind::kMax && p.argmax) p.argmax.row(b)[c] = argmax;
  }
}

struct CountRowsParameters {
  SequenceLayout layout;
  Matrix<int64_t> rows;  // [B, 1]
};

// A grid of its own: all threads of a sequence read its number before.
__global__ void __launch_bounds__(kBlockThreads)
    CountRowsKernel(const CountRowsParameters p) {
  const int64_t count = p.layout.num_sequences;
  for (int64_t b = FirstElement(); b < count; b += ElementStep()) {
    *p.rows.row(b) += p.layout.cu_seqlens[b + 1] - p.layout.cu_seqlens[b];
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
  const int64_t sequences = args.layout.num_sequences;
  const cudaError_t error = Launch<PoolForwardKernel<S>>(
      GridOf(sequences * args.y.cols, kBlockThreads), kBlockThreads, stream,
      args);
  if (error != cudaSuccess || !args.carry) return error;
  return Launch<CountRowsKernel>(
      GridOf(sequences, kBlockThreads), kBlockThreads, stream,
      CountRowsParameters{args.layout, args.carry.rows});
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
