#include <cmath>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/loss.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

// A row goes to one warp or, if it is long, to a whole block: kThreads. Which
// one depends on the number of columns alone.
constexpr int64_t kWarpColumns = 1024;

template <int kThreads>
__device__ inline int64_t FirstRowOf() {
  return kThreads == kWarpLanes ? FirstRow() : blockIdx.x;
}
template <int kThreads>
__device__ inline int64_t RowStepOf() {
  return kThreads == kWarpLanes ? RowStep() : gridDim.x;
}

// Calls f(j) for the first column of each of this thread's parts of a row.
template <int kThreads, typename S, typename F>
__device__ inline void ForEachPartOf(int64_t cols, const F& f) {
  constexpr int kPart = kWideVec<S>;
  const int thread = threadIdx.x % kThreads;
  for (int64_t j = thread * kPart; j < cols; j += kThreads * kPart) f(j);
}

// The sum of exp(x - max) of some x, with the largest of them; one pass. NaN
// does not show in max but in sum.
struct ExpSum {
  float max = -INFINITY;
  float sum = 0.0f;
};

template <int kCount>
__device__ inline void AddExp(const float (&x)[kCount], ExpSum& total) {
  float max = total.max;
#pragma unroll
  for (int i = 0; i < kCount; ++i) max = Larger()(max, x[i]);
  // Where all were -inf, so that exp(-inf - shift) is 0.
  const float shift = max == -INFINITY ? 0.0f : max;
  float sum = total.sum * expf(total.max - shift);
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum += expf(x[i] - shift);
  total = {max, sum};
}

// What a row of logits has in common: max over all (`beside` among them), and
// the sum of exp(x - max) without beside.
struct RowSum {
  float max;
  double sum;
};

template <int kThreads>
__device__ inline RowSum Combine(const ExpSum& part, float beside) {
  const float largest = GroupReduce<kThreads>(part.max, Larger());
  const float max = Larger()(beside, largest);
  const double own = static_cast<double>(part.sum) * expf(part.max - max);
  return {max, GroupReduce<kThreads>(own, Plus())};
}

// Parts of a row of logits, -inf in the target's place and past the end.
template <bool kAligned, typename S>
__device__ inline void LoadOthers(const S* row, int64_t j, int64_t cols,
                                  int64_t target, float (&x)[kWideVec<S>]) {
  LoadPart<kAligned>(row + j, cols - j, -INFINITY, x);
#pragma unroll
  for (int i = 0; i < kWideVec<S>; ++i) {
    if (j + i == target) x[i] = -INFINITY;
  }
}

// The loss of one row, and what its gradient is made of.
struct RowLoss {
  float loss;
  float factor;  // of exp(x - max): weight / sum
  float target;  // the gradient at the target
};

// The target is taken out of the row and its term added last: a loss near 0 is
// the logarithm of 1 + (a small sum of the others), and keeps its digits.
__device__ inline RowLoss LossOf(const RowSum& others, float x_target,
                                 float weight) {
  const double margin = static_cast<double>(others.max) - x_target;
  const double sum = others.sum + exp(-margin);
  const double loss = margin == 0.0 ? log1p(others.sum) : margin + log(sum);
  return {static_cast<float>(weight * loss), static_cast<float>(weight / sum),
          static_cast<float>(-weight * (others.sum / sum))};
}

// Overwrites a row by exp(x - max) * factor, and the target by its own.
template <int kThreads, bool kAligned, typename S>
__device__ inline void StoreExp(S* row, int64_t cols, float max, float factor,
                                int64_t target, float at_target) {
  ForEachPartOf<kThreads, S>(cols, [&](int64_t j) {
    float x[kWideVec<S>];
    LoadPart<kAligned>(row + j, cols - j, 0.0f, x);
#pragma unroll
    for (int i = 0; i < kWideVec<S>; ++i) {
      x[i] = j + i == target ? at_target : expf(x[i] - max) * factor;
    }
    StorePart<kAligned>(x, cols - j, row + j);
  });
}

template <int kThreads, bool kAligned, typename S>
__device__ inline void ZeroRow(S* row, int64_t cols) {
  ForEachPartOf<kThreads, S>(cols, [&](int64_t j) {
    const float zeros[kWideVec<S>] = {};
    StorePart<kAligned>(zeros, cols - j, row + j);
  });
}

template <typename S, int kThreads, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    CrossEntropyKernel(const CrossEntropyArgs<S> p) {
  const int64_t cols = p.logits.cols;
  const bool leader = threadIdx.x % kThreads == 0;
  for (int64_t r = FirstRowOf<kThreads>(); r < p.logits.rows;
       r += RowStepOf<kThreads>()) {
    S* row = p.logits.row(r);
    const int64_t target = p.targets[r];
    if (target == p.ignore_index) {
      if (leader) p.row_losses[r] = 0.0f;
      if (p.want_gradient) ZeroRow<kThreads, kAligned>(row, cols);
      continue;
    }
    const float x_target = ToFloat(row[target]);
    ExpSum part;
    ForEachPartOf<kThreads, S>(cols, [&](int64_t j) {
      float x[kWideVec<S>];
      LoadOthers<kAligned>(row, j, cols, target, x);
      AddExp(x, part);
    });
    const RowSum others = Combine<kThreads>(part, x_target);
    const float weight = p.weights == nullptr ? 1.0f : p.weights[r];
    const RowLoss result = LossOf(others, x_target, weight);
    if (leader) p.row_losses[r] = result.loss;
    __syncwarp();  // all have read x_target (a block has waited for the sums)
    if (p.want_gradient) {
      StoreExp<kThreads, kAligned>(row, cols, others.max, result.factor, target,
                                   result.target);
    }
  }
}

template <typename S>
struct SoftmaxParameters {
  Matrix<S> logits;
};

template <typename S, int kThreads, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    SoftmaxKernel(const SoftmaxParameters<S> p) {
  const int64_t cols = p.logits.cols;
  for (int64_t r = FirstRowOf<kThreads>(); r < p.logits.rows;
       r += RowStepOf<kThreads>()) {
    S* row = p.logits.row(r);
    ExpSum part;
    ForEachPartOf<kThreads, S>(cols, [&](int64_t j) {
      float x[kWideVec<S>];
      LoadPart<kAligned>(row + j, cols - j, -INFINITY, x);
      AddExp(x, part);
    });
    const RowSum all = Combine<kThreads>(part, -INFINITY);
    StoreExp<kThreads, kAligned>(row, cols, all.max,
                                 static_cast<float>(1.0 / all.sum),
                                 /*target=*/-1, 0.0f);
  }
}

// Few columns are usual: a warp a row.
template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    SquaredErrorKernel(const SquaredErrorArgs<S> p) {
  constexpr int kPart = kWideVec<S>;
  const int64_t cols = p.predictions.cols;
  for (int64_t r = FirstRow(); r < p.predictions.rows; r += RowStep()) {
    const float weight = p.weights == nullptr ? 1.0f : p.weights[r];
    const float factor = 2.0f * weight / static_cast<float>(cols);
    float sum = 0.0f;
    ForEachPart<S>(cols, [&](int64_t j) {
      S* predictions = p.predictions.row(r) + j;
      float error[kPart], targets[kPart];
      LoadPart<kAligned>(predictions, cols - j, 0.0f, error);
      LoadPart<kAligned>(p.targets.row(r) + j, cols - j, 0.0f, targets);
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        error[i] -= targets[i];
        sum += error[i] * error[i];
        error[i] *= factor;
      }
      if (p.want_gradient) StorePart<kAligned>(error, cols - j, predictions);
    });
    const double total = WarpReduce(static_cast<double>(sum), Plus());
    if (Lane() == 0) {
      p.row_losses[r] =
          static_cast<float>(weight * (total / static_cast<double>(cols)));
    }
  }
}

}  // namespace

// --- Launchers ---

namespace {

// Launches one of two kernels with a warp for each row, or with a block.
template <auto kWarp, auto kBlock, typename Parameters>
cudaError_t LaunchByWidth(int64_t rows, int64_t cols, cudaStream_t stream,
                          const Parameters& p) {
  return cols <= kWarpColumns
             ? Launch<kWarp>(GridOf(rows, kBlockWarps), kBlockThreads, stream,
                             p)
             : Launch<kBlock>(GridOf(rows, 1), kBlockThreads, stream, p);
}

}  // namespace

template <typename S>
cudaError_t CrossEntropy(const CrossEntropyArgs<S>& args, cudaStream_t stream) {
  const Matrix<S>& logits = args.logits;
  if (IsWide(logits)) {
    return LaunchByWidth<CrossEntropyKernel<S, kWarpLanes, true>,
                         CrossEntropyKernel<S, kBlockThreads, true>>(
        logits.rows, logits.cols, stream, args);
  }
  return LaunchByWidth<CrossEntropyKernel<S, kWarpLanes, false>,
                       CrossEntropyKernel<S, kBlockThreads, false>>(
      logits.rows, logits.cols, stream, args);
}

template <typename S>
cudaError_t SquaredError(const SquaredErrorArgs<S>& args, cudaStream_t stream) {
  return LaunchRows<SquaredErrorKernel<S, true>, SquaredErrorKernel<S, false>>(
      IsWide(args.predictions) && IsWide(args.targets), args.predictions.rows,
      stream, args);
}

template <typename S>
cudaError_t Softmax(Matrix<S> logits, cudaStream_t stream) {
  const SoftmaxParameters<S> p = {logits};
  if (IsWide(logits)) {
    return LaunchByWidth<SoftmaxKernel<S, kWarpLanes, true>,
                         SoftmaxKernel<S, kBlockThreads, true>>(
        logits.rows, logits.cols, stream, p);
  }
  return LaunchByWidth<SoftmaxKernel<S, kWarpLanes, false>,
                       SoftmaxKernel<S, kBlockThreads, false>>(
      logits.rows, logits.cols, stream, p);
}

#define RECURVE_INSTANTIATE(S)                                                 \
  template cudaError_t CrossEntropy(const CrossEntropyArgs<S>&, cudaStream_t); \
  template cudaError_t SquaredError(const SquaredErrorArgs<S>&, cudaStream_t); \
  template cudaError_t Softmax(Matrix<S>, cudaStream_t)
RECURVE_INSTANTIATE(float);
RECURVE_INSTANTIATE(BFloat16);
RECURVE_INSTANTIATE(Float16);
#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
