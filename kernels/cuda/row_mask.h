// Variational masks: one row of factors a sequence, for all of its rows;
// kernels/layers/parts.h says how.
#ifndef RECURVE_KERNELS_CUDA_ROW_MASK_H_
#define RECURVE_KERNELS_CUDA_ROW_MASK_H_

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

template <typename S>
cudaError_t MultiplyBySequenceMask(const SequenceLayout& layout,
                                   Matrix<const S> x, Matrix<const float> mask,
                                   Matrix<S> y, Destination destination,
                                   cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_ROW_MASK_H_
