// QRNN's window of two rows: (x_t, previous row) side by side, so that one
// product serves both; kernels/layers/parts.h says what each function does.
#ifndef RECURVE_KERNELS_CUDA_WINDOW_H_
#define RECURVE_KERNELS_CUDA_WINDOW_H_

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

template <typename S>
cudaError_t FillWindowRows(const SequenceLayout& layout, Matrix<const S> x,
                           Matrix<const float> x_previous,
                           Matrix<S> window_rows, cudaStream_t stream);

template <typename S>
cudaError_t GatherWindowGradient(const SequenceLayout& layout,
                                 Matrix<const S> dwindow_rows, Matrix<S> dx,
                                 cudaStream_t stream);

template <typename S>
cudaError_t StoreLastRows(const SequenceLayout& layout, Matrix<const S> x,
                          Matrix<const float> x_previous, Matrix<float> x_last,
                          cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_WINDOW_H_
