#include <cstdint>

#include "kernels/cuda/column_sum.cuh"
#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

template <typename S>
struct ColumnSumsParameters {
  Matrix<const S> m;
  float* sums;
  bool adds;
};

template <typename S>
__global__ void __launch_bounds__(kSumThreads)
    ColumnSumsKernel(const ColumnSumsParameters<S> p) {
  float total[1];
  SumColumns<S>(
      p.m.rows, p.m.cols,
      [&](int64_t r, int64_t column, float(&sums)[1]) {
        sums[0] += ToFloat(p.m.row(r)[column]);
      },
      total);
  const int64_t column =
      static_cast<int64_t>(blockIdx.x) * kSumColumns<S> + threadIdx.x;
  if (threadIdx.x < kSumColumns<S> && column < p.m.cols) {
    p.sums[column] = p.adds ? p.sums[column] + total[0] : total[0];
  }
}

}  // namespace

// --- Launchers ---

template <typename S>
cudaError_t ColumnSums(Matrix<const S> m, float* sums, Destination destination,
                       cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(CeilDivide(m.cols, kSumColumns<S>)));
  const bool adds = destination != Destination::kOverwrite;
  return Launch<ColumnSumsKernel<S>>(grid, kSumThreads, stream,
                                     ColumnSumsParameters<S>{m, sums, adds});
}

template cudaError_t ColumnSums(Matrix<const float>, float*, Destination,
                                cudaStream_t);
template cudaError_t ColumnSums(Matrix<const BFloat16>, float*, Destination,
                                cudaStream_t);
template cudaError_t ColumnSums(Matrix<const Float16>, float*, Destination,
                                cudaStream_t);

}  // namespace recurve::cuda
