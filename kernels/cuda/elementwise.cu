#include <cstdint>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

template <typename S>
struct MultiplyParameters {
  Matrix<S> x;
  Matrix<const float> mask;
};

template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    MultiplyKernel(const MultiplyParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  for (int64_t r = FirstRow(); r < p.x.rows; r += RowStep()) {
    ForEachPart<S>(p.x.cols, [&](int64_t j) {
      const int64_t left = p.x.cols - j;
      float x[kPart], mask[kPart];
      LoadPart<kAligned>(p.x.row(r) + j, left, 0.0f, x);
      LoadPart<kAligned>(p.mask.row(r) + j, left, 0.0f, mask);
#pragma unroll
      for (int i = 0; i < kPart; ++i) x[i] *= mask[i];
      StorePart<kAligned>(x, left, p.x.row(r) + j);
    });
  }
}

constexpr int kFloatPart = kWideVec<float>;

struct AddParameters {
  float* to;
  const float* from;
  int64_t count;
};

template <bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    AddKernel(const AddParameters p) {
  for (int64_t j = FirstElement() * kFloatPart; j < p.count;
       j += ElementStep() * kFloatPart) {
    float to[kFloatPart], from[kFloatPart];
    LoadPart<kAligned>(p.to + j, p.count - j, 0.0f, to);
    LoadPart<kAligned>(p.from + j, p.count - j, 0.0f, from);
#pragma unroll
    for (int i = 0; i < kFloatPart; ++i) to[i] += from[i];
    StorePart<kAligned>(to, p.count - j, p.to + j);
  }
}

struct SquaresParameters {
  const float* data;
  int64_t count;
  double* partials;  // one a block
};

template <bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    SumOfSquaresKernel(const SquaresParameters p) {
  double sum = 0.0;
  for (int64_t j = FirstElement() * kFloatPart; j < p.count;
       j += ElementStep() * kFloatPart) {
    float x[kFloatPart];
    LoadPart<kAligned>(p.data + j, p.count - j, 0.0f, x);
#pragma unroll
    for (int i = 0; i < kFloatPart; ++i) {
      sum += static_cast<double>(x[i]) * x[i];
    }
  }
  sum = BlockReduce(sum, Plus());
  if (threadIdx.x == 0) p.partials[blockIdx.x] = sum;
}

struct TotalParameters {
  const double* partials;
  int64_t count;
  double* total;
};

// One block.
__global__ void __launch_bounds__(kBlockThreads)
    AddPartialsKernel(const TotalParameters p) {
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < p.count; i += kBlockThreads) {
    sum += p.partials[i];
  }
  sum = BlockReduce(sum, Plus());
  if (threadIdx.x == 0) *p.total = sum;
}

}  // namespace

// --- Launchers ---

cudaError_t ProbeKernels() { return Probe<AddPartialsKernel>(); }

template <typename S>
cudaError_t Multiply(Matrix<S> x, Matrix<const float> mask,
                     cudaStream_t stream) {
  return LaunchRows<MultiplyKernel<S, true>, MultiplyKernel<S, false>>(
      IsWide(x) && IsWide(mask), x.rows, stream,
      MultiplyParameters<S>{x, mask});
}

template cudaError_t Multiply(Matrix<float>, Matrix<const float>, cudaStream_t);
template cudaError_t Multiply(Matrix<BFloat16>, Matrix<const float>,
                              cudaStream_t);
template cudaError_t Multiply(Matrix<Float16>, Matrix<const float>,
                              cudaStream_t);

cudaError_t Add(float* to, const float* from, int64_t count,
                cudaStream_t stream) {
  const dim3 grid = GridOf(count, kBlockThreads * kFloatPart);
  const AddParameters p = {to, from, count};
  return IsWide(to) && IsWide(from)
             ? Launch<AddKernel<true>>(grid, kBlockThreads, stream, p)
             : Launch<AddKernel<false>>(grid, kBlockThreads, stream, p);
}

cudaError_t SumOfSquares(const float* data, int64_t count, double* partials,
                         double* total, cudaStream_t stream) {
  constexpr int64_t kBlockElements = 4096;
  const int64_t blocks = CeilDivide(count, kBlockElements);
  const int64_t used = blocks < kSquaresPartials ? blocks : kSquaresPartials;
  const dim3 grid(static_cast<unsigned>(used));
  const SquaresParameters p = {data, count, partials};
  const cudaError_t error =
      IsWide(data)
          ? Launch<SumOfSquaresKernel<true>>(grid, kBlockThreads, stream, p)
          : Launch<SumOfSquaresKernel<false>>(grid, kBlockThreads, stream, p);
  if (error != cudaSuccess) return error;
  return Launch<AddPartialsKernel>(1, kBlockThreads, stream,
                                   TotalParameters{partials, used, total});
}

}  // namespace recurve::cuda
