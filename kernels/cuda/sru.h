// SRU's element-wise recurrence on a GPU, forward and backward (equations:
// sru.cu): what lies between the projection and any post-norm, for all
// sequences, both directions, in one launch and one pass over memory.
//
// The arguments are not checked. H and the row strides in bytes must be below
// 2^31, as must a sequence's length; the matrices may be larger. Results are
// a pure function of the arguments' bits and of the plan. The same plan gives a
// sequence the same forward bits whatever it is batched with, and a serial walk
// has the same bits for any `vec`, and for a sequence cut in time whose state
// is carried on.
#ifndef RECURVE_KERNELS_CUDA_SRU_H_
#define RECURVE_KERNELS_CUDA_SRU_H_

#include "kernels/cell_args.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/recurrence_plan.h"

namespace recurve::cuda {

// Reads u, weights.v and bias, x (for a skip of the input), mask_cell and
// c_first; writes y, c and c_last. `y` is args.y, or what post-norm reads.
// S: float, BFloat16 or Float16.
template <typename S>
cudaError_t SruRecurrence(const SruForwardArgs<S>& args, Matrix<S> y,
                          cudaStream_t stream);

// `dy` is the gradient of SruRecurrence's y. Overwrites u by its gradient, dx
// by the gradient of a skip of the input alone, dc_first, and channel_partials
// by each sequence's dv_f, dv_r, db_f and db_r. Absent outputs are not written.
template <typename S>
cudaError_t SruRecurrenceBackward(const SruBackwardArgs<S>& args,
                                  Matrix<const S> dy, cudaStream_t stream);

// The problems that the two plan for, and the same by a plan of the caller's:
// for tests and measurements. A plan must be one that PlanRecurrence could
// return for the problem, if it were of another size.
template <typename S>
RecurrenceProblem SruProblem(const SruForwardArgs<S>& args, Matrix<S> y);
template <typename S>
RecurrenceProblem SruProblem(const SruBackwardArgs<S>& args,
                             Matrix<const S> dy);
template <typename S>
cudaError_t SruRecurrence(const SruForwardArgs<S>& args, Matrix<S> y,
                          const RecurrencePlan& plan, cudaStream_t stream);
template <typename S>
cudaError_t SruRecurrenceBackward(const SruBackwardArgs<S>& args,
                                  Matrix<const S> dy,
                                  const RecurrencePlan& plan,
                                  cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_SRU_H_
