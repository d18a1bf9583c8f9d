#include <cstdint>

#include "kernels/cell_args.h"
#include "kernels/cuda/column_sum.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_norm.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

template <typename S>
struct LayerNormForwardParameters {
  Matrix<const S> x;
  const float* weight;
  const float* bias;
  Matrix<S> y;
  Matrix<float> statistics;
};

// A warp a row. The row is read three times, all but the first from the cache:
// a sum of squares of centred values does not cancel where the mean is large.
template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    LayerNormForwardKernel(const LayerNormForwardParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  const int64_t cols = p.x.cols;
  for (int64_t r = FirstRow(); r < p.x.rows; r += RowStep()) {
    const S* row = p.x.row(r);
    float x[kPart];
    float sum = 0.0f;
    ForEachPart<S>(cols, [&](int64_t j) {
      LoadPart<kAligned>(row + j, cols - j, 0.0f, x);
#pragma unroll
      for (int i = 0; i < kPart; ++i) sum += x[i];
    });
    const float mean = WarpReduce(sum, Plus()) / cols;
    float squares = 0.0f;
    ForEachPart<S>(cols, [&](int64_t j) {
      LoadPart<kAligned>(row + j, cols - j, mean, x);
#pragma unroll
      for (int i = 0; i < kPart; ++i) squares += (x[i] - mean) * (x[i] - mean);
    });
    const float variance = WarpReduce(squares, Plus()) / cols;
    const float scale = 1.0f / sqrtf(variance + kLayerNormEpsilon);
    ForEachPart<S>(cols, [&](int64_t j) {
      float weight[kPart], bias[kPart];
      LoadPart<kAligned>(row + j, cols - j, 0.0f, x);
      LoadPart<kAligned>(p.weight + j, cols - j, 0.0f, weight);
      LoadPart<kAligned>(p.bias + j, cols - j, 0.0f, bias);
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        x[i] = fmaf((x[i] - mean) * scale, weight[i], bias[i]);
      }
      StorePart<kAligned>(x, cols - j, p.y.row(r) + j);
    });
    if (p.statistics && Lane() == 0) {
      p.statistics.row(r)[0] = mean;
      p.statistics.row(r)[1] = scale;
    }
  }
}

template <typename S>
struct LayerNormBackwardParameters {
  Matrix<const S> x;
  Matrix<const float> statistics;
  const float* weight;
  Matrix<const S> dy;
  Matrix<S> dx;
  bool accumulate;
};

//   dx^ = dy * weight
//   dx = inverse_stddev * (dx^ - mean(dx^) - x^ * mean(dx^ * x^))
template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    LayerNormBackwardKernel(const LayerNormBackwardParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  const int64_t cols = p.x.cols;
  for (int64_t r = FirstRow(); r < p.x.rows; r += RowStep()) {
    const float mean = p.statistics.row(r)[0];
    const float scale = p.statistics.row(r)[1];
    float hat[kPart], dhat[kPart];
    // x^ and dx^ of the columns from j on, zeros past the row's end.
    const auto load = [&](int64_t j) {
      float weight[kPart];
      LoadPart<kAligned>(p.x.row(r) + j, cols - j, mean, hat);
      LoadPart<kAligned>(p.dy.row(r) + j, cols - j, 0.0f, dhat);
      LoadPart<kAligned>(p.weight + j, cols - j, 0.0f, weight);
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        hat[i] = (hat[i] - mean) * scale;
        dhat[i] *= weight[i];
      }
    };
    float sum = 0.0f, products = 0.0f;
    ForEachPart<S>(cols, [&](int64_t j) {
      load(j);
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        sum += dhat[i];
        products += dhat[i] * hat[i];
      }
    });
    const float mean_dhat = WarpReduce(sum, Plus()) / cols;
    const float mean_product = WarpReduce(products, Plus()) / cols;
    ForEachPart<S>(cols, [&](int64_t j) {
      load(j);
      float dx[kPart];
      if (p.accumulate) {
        LoadPart<kAligned>(p.dx.row(r) + j, cols - j, 0.0f, dx);
      }
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        const float inner = dhat[i] - mean_dhat - hat[i] * mean_product;
        dx[i] = scale * inner + (p.accumulate ? dx[i] : 0.0f);
      }
      StorePart<kAligned>(dx, cols - j, p.dx.row(r) + j);
    });
  }
}

template <typename S>
struct LayerNormParameterGradientsParameters {
  Matrix<const S> x;
  Matrix<const float> statistics;
  Matrix<const S> dy;
  float* dweight;
  float* dbias;
};

// dweight = sum over rows of dy * x^, dbias of dy.
template <typename S>
__global__ void __launch_bounds__(kSumThreads)
    LayerNormParameterGradientsKernel(
        const LayerNormParameterGradientsParameters<S> p) {
  float totals[2];
  SumColumns<S>(
      p.x.rows, p.x.cols,
      [&](int64_t r, int64_t column, float(&sums)[2]) {
        const float dy = ToFloat(p.dy.row(r)[column]);
        const float x = ToFloat(p.x.row(r)[column]);
        const float* statistics = p.statistics.row(r);
        sums[0] += dy * ((x - statistics[0]) * statistics[1]);
        sums[1] += dy;
      },
      totals);
  const int64_t column =
      static_cast<int64_t>(blockIdx.x) * kSumColumns<S> + threadIdx.x;
  if (threadIdx.x >= kSumColumns<S> || column >= p.x.cols) return;
  if (p.dweight != nullptr) p.dweight[column] = totals[0];
  if (p.dbias != nullptr) p.dbias[column] = totals[1];
}

}  // namespace

// --- Launchers ---

template <typename S>
cudaError_t LayerNormForward(Matrix<const S> x, const float* weight,
                             const float* bias, Matrix<S> y,
                             Matrix<float> statistics, cudaStream_t stream) {
  const bool wide = IsWide(x) && IsWide(y) && IsWide(weight) && IsWide(bias);
  return LaunchRows<LayerNormForwardKernel<S, true>,
                    LayerNormForwardKernel<S, false>>(
      wide, x.rows, stream,
      LayerNormForwardParameters<S>{x, weight, bias, y, statistics});
}

template <typename S>
cudaError_t LayerNormBackward(Matrix<const S> x, Matrix<const float> statistics,
                              const float* weight, Matrix<const S> dy,
                              Matrix<S> dx, Destination dx_destination,
                              float* dweight, float* dbias,
                              cudaStream_t stream) {
  // First: dx may overwrite dy.
  if (dweight != nullptr || dbias != nullptr) {
    const dim3 grid(static_cast<unsigned>(CeilDivide(x.cols, kSumColumns<S>)));
    const cudaError_t error = Launch<LayerNormParameterGradientsKernel<S>>(
        grid, kSumThreads, stream,
        LayerNormParameterGradientsParameters<S>{x, statistics, dy, dweight,
                                                 dbias});
    if (error != cudaSuccess) return error;
  }
  if (!dx) return cudaSuccess;
  const bool wide = IsWide(x) && IsWide(dy) && IsWide(dx) && IsWide(weight);
  return LaunchRows<LayerNormBackwardKernel<S, true>,
                    LayerNormBackwardKernel<S, false>>(
      wide, x.rows, stream,
      LayerNormBackwardParameters<S>{
          x, statistics, weight, dy, dx,
          dx_destination == Destination::kAccumulate});
}

#define RECURVE_INSTANTIATE(S)                                             \
  template cudaError_t LayerNormForward(Matrix<const S>, const float*,     \
                                        const float*, Matrix<S>,           \
                                        Matrix<float>, cudaStream_t);      \
  template cudaError_t LayerNormBackward(                                  \
      Matrix<const S>, Matrix<const float>, const float*, Matrix<const S>, \
      Matrix<S>, Destination, float*, float*, cudaStream_t)
RECURVE_INSTANTIATE(float);
RECURVE_INSTANTIATE(BFloat16);
RECURVE_INSTANTIATE(Float16);
#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
