// Losses over the rows of a matrix, and softmax. All work in place; a row's
// bits depend on that row alone. A NaN in a row makes that row's results NaN.
//
// A thread's terms of a row are added in float, the threads in double and in a
// fixed order.
#ifndef RECURVE_KERNELS_CUDA_LOSS_H_
#define RECURVE_KERNELS_CUDA_LOSS_H_

#include "kernels/cell_args.h"
#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// row_losses[r] = weight * (log sum_j exp(x_j) - x_target), accurate relative
// to itself even where it is nearly 0; the gradient is
// weight * (softmax(x)_j - [j == target]).
template <typename S>
cudaError_t CrossEntropy(const CrossEntropyArgs<S>& args, cudaStream_t stream);

// row_losses[r] = weight / O * sum_j (p_j - t_j)^2; the gradient is
// 2 * weight / O * (p_j - t_j).
template <typename S>
cudaError_t SquaredError(const SquaredErrorArgs<S>& args, cudaStream_t stream);

// Softmax of each row, in place.
template <typename S>
cudaError_t Softmax(Matrix<S> logits, cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_LOSS_H_
