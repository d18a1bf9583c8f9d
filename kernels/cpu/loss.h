// Losses over the rows of a matrix, and softmax. All work in place and on the
// calling thread's OpenMP team; a row's bits depend on that row alone.
//
// Inside a row, sums are kept in 16 interleaved float sums that go into a
// double every 512 terms. A NaN in a row makes that row's results NaN.
#ifndef RECURVE_KERNELS_CPU_LOSS_H_
#define RECURVE_KERNELS_CPU_LOSS_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// row_losses[r] = weight * (log sum_j exp(x_j) - x_target), accurate relative
// to itself even where it is nearly 0; the gradient is
// weight * (softmax(x)_j - [j == target]).
//
// Errors: InvalidArgument if targets or row_losses are missing, or V is 0.
absl::Status CrossEntropy(const CrossEntropyArgs<float>& args);

// row_losses[r] = weight / O * sum_j (p_j - t_j)^2; the gradient is
// 2 * weight / O * (p_j - t_j).
//
// Errors: InvalidArgument if the shapes differ, row_losses is missing, or O is
// 0.
absl::Status SquaredError(const SquaredErrorArgs<float>& args);

// Softmax of each row, in place.
absl::Status Softmax(Matrix<float> logits);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_LOSS_H_
