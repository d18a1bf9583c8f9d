// Pooling over time: one row a sequence.
#ifndef RECURVE_KERNELS_CUDA_POOL_H_
#define RECURVE_KERNELS_CUDA_POOL_H_

#include "kernels/cell_args.h"
#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// y[b] = the last row of sequence b, the mean of its rows (summed in double, in
// time order), or their maximum in each channel. argmax, which may be absent,
// is the first row that has the maximum, -1 for a zero-length sequence; a NaN
// counts as the largest. All bits are the CPU backend's, of the carry too.
template <typename S>
cudaError_t PoolForward(const PoolArgs<S>& args, cudaStream_t stream);

// dx from dy, and argmax for kMax.
template <typename S>
cudaError_t PoolBackward(const PoolArgs<S>& args, cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_POOL_H_
