// Layer normalisation of rows (biased variance, kLayerNormEpsilon):
//   x^ = (x - mean) * inverse_stddev      y = x^ * weight + bias
#ifndef RECURVE_KERNELS_CUDA_LAYER_NORM_H_
#define RECURVE_KERNELS_CUDA_LAYER_NORM_H_

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// y may be x. statistics [rows, 2] gets mean and 1/stddev; may be absent.
template <typename S>
cudaError_t LayerNormForward(Matrix<const S> x, const float* weight,
                             const float* bias, Matrix<S> y,
                             Matrix<float> statistics, cudaStream_t stream);

// Reads what the forward pass saw and wrote. dx may be absent, or be dy itself
// (not with kAccumulate). dweight and dbias are overwritten, each may be null.
template <typename S>
cudaError_t LayerNormBackward(Matrix<const S> x, Matrix<const float> statistics,
                              const float* weight, Matrix<const S> dy,
                              Matrix<S> dx, Destination dx_destination,
                              float* dweight, float* dbias,
                              cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_LAYER_NORM_H_
