#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

// Grows with x; equal for 0 and -0; a NaN is the largest.
__device__ inline uint32_t KeyOf(float x) {
  if (x != x) return 0xffffffffu;
  const uint32_t bits = x == 0.0f ? 0u : __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The value of a key that is not a NaN's.
__device__ inline float ValueOf(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

using Count = unsigned long long;  // what atomicAdd takes, 64 bits

// Key above, then the smaller index: the larger, the earlier in rank.
__device__ inline Count Ranked(float x, int64_t index) {
  return static_cast<Count>(KeyOf(x)) << 32 |
         (0xffffffffu - static_cast<uint32_t>(index));
}
__device__ inline int32_t IndexOf(Count ranked) {
  return static_cast<int32_t>(0xffffffffu - static_cast<uint32_t>(ranked));
}

// The first in rank of a row; the whole block calls.
template <typename S>
__device__ inline Count FirstInRank(const S* row, int64_t cols) {
  Count best = 0;
  for (int64_t j = threadIdx.x; j < cols; j += kBlockThreads) {
    best = Larger()(best, Ranked(ToFloat(row[j]), j));
  }
  return BlockReduce(best, Larger());
}

template <typename S>
struct ArgmaxParameters {
  Matrix<const S> m;
  int32_t* indices;
};

template <typename S>
__global__ void __launch_bounds__(kBlockThreads)
    ArgmaxKernel(const ArgmaxParameters<S> p) {
  for (int64_t r = blockIdx.x; r < p.m.rows; r += gridDim.x) {
    const Count best = FirstInRank(p.m.row(r), p.m.cols);
    if (threadIdx.x == 0) p.indices[r] = IndexOf(best);
  }
}

// One row of logits, whose probabilities are integers.
template <typename S>
struct Row {
  const S* logits;
  int64_t cols;
  float largest;
  float temperature;

  __device__ uint32_t Key(int64_t j) const { return KeyOf(ToFloat(logits[j])); }
  __device__ Count Weight(uint32_t key) const {
    const float x = (ValueOf(key) - largest) / temperature;
    return static_cast<Count>(expf(x) * 1099511627776.0f);  // 2^40
  }
};

// The first tokens in rank: all whose key is larger than `key`, and the first
// `equals` of those that have it.
struct Kept {
  uint32_t key = 0;
  Count equals = ~Count{0};
};

// The shortest run of first tokens in rank whose measures add up to `wanted`
// or more; all tokens, if they do not. Measures are positive for all tokens
// that matter and equal for equal keys. Digit by digit of the key, from above:
// how much lies in each of 256 ranges is counted in shared memory, whose sums
// are exact in any order. The whole block calls.
template <typename S, typename Measure>
__device__ inline Kept FirstTokens(const Row<S>& row, Count wanted,
                                   const Measure& measure) {
  static_assert(kBlockThreads == 256);
  RECURVE_SHARED(Count, in_range, kBlockThreads);
  RECURVE_SHARED(Count, chosen, 2);  // digit, what is still wanted
  uint32_t prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    in_range[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t j = threadIdx.x; j < row.cols; j += kBlockThreads) {
      const uint32_t key = row.Key(j);
      // Shifting by 32 is undefined.
      const bool inside =
          shift == 24 || key >> (shift + 8) == prefix >> (shift + 8);
      if (inside) atomicAdd(&in_range[key >> shift & 255], measure(key));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      int digit = 255;
      while (digit > 0 && in_range[digit] < wanted) {
        wanted -= in_range[digit--];
      }
      chosen[0] = static_cast<Count>(digit);
      chosen[1] = wanted;
    }
    __syncthreads();
    // Two barriers before this is written again.
    prefix |= static_cast<uint32_t>(chosen[0]) << shift;
    wanted = chosen[1];
  }
  const Count each = measure(prefix);
  return {prefix, each == 0 ? ~Count{0} : (wanted + each - 1) / each};
}

// The sum over the threads before this one; the whole block calls. *total gets
// the sum over all.
__device__ inline Count SumBefore(Count value, Count* total) {
  RECURVE_SHARED(Count, of_warp, kBlockWarps);
  Count sum = value;  // of this lane and those before
#pragma unroll
  for (int step = 1; step < kWarpLanes; step *= 2) {
    const Count other = __shfl_up_sync(kAllLanes, sum, step);
    if (Lane() >= step) sum += other;
  }
  if (Lane() == kWarpLanes - 1) of_warp[WarpOfBlock()] = sum;
  __syncthreads();
  Count before = sum - value;
  *total = 0;
#pragma unroll
  for (int w = 0; w < kBlockWarps; ++w) {
    if (w < WarpOfBlock()) before += of_warp[w];
    *total += of_warp[w];
  }
  __syncthreads();
  return before;
}

// What a thread needs to know of the kept tokens in its stretch of a row.
template <typename S>
struct Stretch {
  const Row<S>& row;
  const Kept& kept;
  int64_t begin, end;
  Count equals_before;  // tokens with kept.key before begin

  // Calls f(j, weight) for each kept token of the stretch in turn.
  template <typename F>
  __device__ void ForEachKept(const F& f) const {
    Count equals = equals_before;
    for (int64_t j = begin; j < end; ++j) {
      const uint32_t key = row.Key(j);
      if (key < kept.key || (key == kept.key && equals++ >= kept.equals)) {
        continue;
      }
      f(j, row.Weight(key));
    }
  }
};

template <typename S>
__device__ inline Stretch<S> StretchOf(const Row<S>& row, const Kept& kept) {
  const int64_t length = (row.cols + kBlockThreads - 1) / kBlockThreads;
  int64_t begin = threadIdx.x * length;
  if (begin > row.cols) begin = row.cols;
  const int64_t end = begin + length < row.cols ? begin + length : row.cols;
  Count equals = 0, all;
  for (int64_t j = begin; j < end; ++j) equals += row.Key(j) == kept.key;
  return {row, kept, begin, end, SumBefore(equals, &all)};
}

template <typename S>
__device__ inline Count WeightOf(const Stretch<S>& stretch) {
  Count sum = 0;
  stretch.ForEachKept([&](int64_t, Count weight) { sum += weight; });
  return sum;
}

// floor(total * fraction) exactly, for a fraction in [0, 1).
__device__ inline Count Share(Count total, double fraction) {
  return __umul64hi(total,
                    static_cast<Count>(fraction * 18446744073709551616.0));
}

template <typename S>
__device__ inline Kept KeptOf(const Row<S>& row, const SampleArgs<S>& p,
                              int64_t r) {
  Kept kept;
  const int32_t k = p.top_k == nullptr ? 0 : p.top_k[r];
  if (k > 0 && k < row.cols) {
    kept = FirstTokens(row, k, [](uint32_t) { return Count{1}; });
  }
  const float top_p = p.top_p == nullptr ? 1.0f : p.top_p[r];
  if (!(top_p < 1.0f)) return kept;
  Count total;
  SumBefore(WeightOf(StretchOf(row, kept)), &total);
  const Count wanted = Share(total, top_p);
  // The run ends within the tokens kept so far: they lead in rank.
  return FirstTokens(row, wanted == 0 ? 1 : wanted,
                     [&](uint32_t key) { return row.Weight(key); });
}

template <typename S>
__global__ void __launch_bounds__(kBlockThreads)
    SampleKernel(const SampleArgs<S> p) {
  for (int64_t r = blockIdx.x; r < p.logits.rows; r += gridDim.x) {
    Row<S> row = {p.logits.row(r), p.logits.cols, 0.0f, p.temperatures[r]};
    const Count first = FirstInRank(row.logits, row.cols);
    if (threadIdx.x == 0) p.tokens[r] = IndexOf(first);
    if (row.temperature == 0.0f) continue;
    row.largest = ValueOf(static_cast<uint32_t>(first >> 32));

    const Kept kept = KeptOf(row, p, r);
    const Stretch<S> stretch = StretchOf(row, kept);
    const Count own = WeightOf(stretch);
    Count total;
    const Count before = SumBefore(own, &total);  // and p.tokens[r] is written
    const Count point = Share(total, p.uniforms[r]);
    if (point < before || point >= before + own) continue;
    Count sum = before;
    stretch.ForEachKept([&](int64_t j, Count weight) {
      if (sum <= point && point < sum + weight) {
        p.tokens[r] = static_cast<int32_t>(j);
      }
      sum += weight;
    });
  }
}

}  // namespace

// --- Launchers ---

template <typename S>
cudaError_t Sample(const SampleArgs<S>& args, cudaStream_t stream) {
  return Launch<SampleKernel<S>>(GridOf(args.logits.rows, 1), kBlockThreads,
                                 stream, args);
}

template <typename S>
cudaError_t ArgmaxRows(Matrix<const S> m, int32_t* indices,
                       cudaStream_t stream) {
  return Launch<ArgmaxKernel<S>>(GridOf(m.rows, 1), kBlockThreads, stream,
                                 ArgmaxParameters<S>{m, indices});
}

#define RECURVE_INSTANTIATE(S)                                     \
  template cudaError_t Sample(const SampleArgs<S>&, cudaStream_t); \
  template cudaError_t ArgmaxRows(Matrix<const S>, int32_t*, cudaStream_t)
RECURVE_INSTANTIATE(float);
RECURVE_INSTANTIATE(BFloat16);
RECURVE_INSTANTIATE(Float16);
#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
