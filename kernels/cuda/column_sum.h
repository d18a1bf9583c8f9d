// Sums over the rows of a matrix.
#ifndef RECURVE_KERNELS_CUDA_COLUMN_SUM_H_
#define RECURVE_KERNELS_CUDA_COLUMN_SUM_H_

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// sums[j] = sum over rows of m[r][j], or, unless overwritten, that is added to
// it; sums is [m.cols]. column_sum.cuh says in which order.
template <typename S>
cudaError_t ColumnSums(Matrix<const S> m, float* sums, Destination destination,
                       cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_COLUMN_SUM_H_
