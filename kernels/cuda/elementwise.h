// Arithmetic on whole tensors.
#ifndef RECURVE_KERNELS_CUDA_ELEMENTWISE_H_
#define RECURVE_KERNELS_CUDA_ELEMENTWISE_H_

#include <cstdint>

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// Whether the current device can run the kernels of this program, which are all
// compiled for the same kinds of devices.
cudaError_t ProbeKernels();

// x[i] *= mask[i], shapes equal.
template <typename S>
cudaError_t Multiply(Matrix<S> x, Matrix<const float> mask,
                     cudaStream_t stream);

// to[i] += from[i].
cudaError_t Add(float* to, const float* from, int64_t count,
                cudaStream_t stream);

// *total = the sum of squares in double, in an order that depends on count
// alone: each thread's terms, the threads of a block, the blocks. Nothing to
// add gives 0. `partials` is scratch of kSquaresPartials doubles.
inline constexpr int64_t kSquaresPartials = 1024;
cudaError_t SumOfSquares(const float* data, int64_t count, double* partials,
                         double* total, cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_ELEMENTWISE_H_
