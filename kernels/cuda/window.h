// QRNN's window of two rows: (x_t, previous row) side by side, so that one
// product serves both. The previous row is the one before in time, for the
// second direction the one after; rows next to no row have zeros there.
#ifndef RECURVE_KERNELS_CUDA_WINDOW_H_
#define RECURVE_KERNELS_CUDA_WINDOW_H_

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// window_rows [N, D*2*I] from x [N, I]; D = 1 or 2. x_previous [B, I] stands
// before each sequence's first row in direction 0; may be absent.
template <typename S>
cudaError_t FillWindowRows(const SequenceLayout& layout, Matrix<const S> x,
                           Matrix<const float> x_previous,
                           Matrix<S> window_rows, cudaStream_t stream);

// dx [N, I] gathers what each row of x has been copied to; overwritten.
template <typename S>
cudaError_t GatherWindowGradient(const SequenceLayout& layout,
                                 Matrix<const S> dwindow_rows, Matrix<S> dx,
                                 cudaStream_t stream);

// x_last [B, I]: each sequence's last row; x_previous (zeros if absent) for a
// sequence without rows. May alias x_previous.
template <typename S>
cudaError_t StoreLastRows(const SequenceLayout& layout, Matrix<const S> x,
                          Matrix<const float> x_previous, Matrix<float> x_last,
                          cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_WINDOW_H_
