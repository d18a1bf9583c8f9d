// Layer normalisation of rows; kernels/layers/parts.h says what each function
// does.
#ifndef RECURVE_KERNELS_CUDA_LAYER_NORM_H_
#define RECURVE_KERNELS_CUDA_LAYER_NORM_H_

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

template <typename S>
cudaError_t LayerNormForward(Matrix<const S> x, const float* weight,
                             const float* bias, Matrix<S> y,
                             Matrix<float> statistics, cudaStream_t stream);

template <typename S>
cudaError_t LayerNormBackward(Matrix<const S> x, Matrix<const float> statistics,
                              const float* weight, Matrix<const S> dy,
                              Matrix<S> dx, Destination dx_destination,
                              float* dweight, float* dbias,
                              cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_LAYER_NORM_H_
