// QRNN's element-wise recurrence on a GPU, forward and backward (equations:
// qrnn.cu): what follows the projection, for all sequences, both directions, in
// one launch and one pass over memory.
//
// The arguments are not checked. H and the row strides in bytes must be below
// 2^31, as must a sequence's length; the matrices may be larger. Results are
// a pure function of the arguments' bits and of the plan. The same plan gives a
// sequence the same forward bits whatever it is batched with, and a serial walk
// has the same bits for any `vec`, and for a sequence cut in time whose state
// is carried on. A scan differs from a serial walk by rounding.
#ifndef RECURVE_KERNELS_CUDA_QRNN_H_
#define RECURVE_KERNELS_CUDA_QRNN_H_

#include "kernels/cell_args.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/recurrence_plan.h"

namespace recurve::cuda {

// Reads u, weights.bias, zoneout_mask and c_first; writes y, c and c_last.
// S: float, BFloat16 or Float16.
template <typename S>
cudaError_t QrnnRecurrence(const QrnnForwardArgs<S>& args, cudaStream_t stream);

// Overwrites u by its gradient, dc_first, and channel_partials by each
// sequence's bias gradients. Absent outputs are not written.
template <typename S>
cudaError_t QrnnRecurrenceBackward(const QrnnBackwardArgs<S>& args,
                                   cudaStream_t stream);

// The problems that the two plan for, and the same by a plan of the caller's:
// for tests and measurements. A plan must be one that PlanRecurrence could
// return for the problem, if it were of another size.
template <typename S>
RecurrenceProblem QrnnProblem(const QrnnForwardArgs<S>& args);
template <typename S>
RecurrenceProblem QrnnProblem(const QrnnBackwardArgs<S>& args);
template <typename S>
cudaError_t QrnnRecurrence(const QrnnForwardArgs<S>& args,
                           const RecurrencePlan& plan, cudaStream_t stream);
template <typename S>
cudaError_t QrnnRecurrenceBackward(const QrnnBackwardArgs<S>& args,
                                   const RecurrencePlan& plan,
                                   cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_QRNN_H_
