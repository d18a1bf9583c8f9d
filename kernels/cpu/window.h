// QRNN's window of two rows: (x_t, previous row) side by side, so that one
// product serves both. The previous row is the one before in time, for the
// second direction the one after; rows next to no row have zeros there.
#ifndef RECURVE_KERNELS_CPU_WINDOW_H_
#define RECURVE_KERNELS_CPU_WINDOW_H_

#include "kernels/tensor.h"

namespace recurve::cpu {

// window_rows [N, D*2*I] from x [N, I]; D = 1 or 2. x_previous [B, I] stands
// before each sequence's first row in direction 0; may be absent.
void FillWindowRows(const SequenceLayout& layout, Matrix<const float> x,
                    Matrix<const float> x_previous, Matrix<float> window_rows);

// dx [N, I] gathers what each row of x has been copied to; overwritten.
void GatherWindowGradient(const SequenceLayout& layout,
                          Matrix<const float> dwindow_rows, Matrix<float> dx);

// x_last [B, I]: each sequence's last row; x_previous (zeros if absent) for a
// sequence without rows. May alias x_previous.
void StoreLastRows(const SequenceLayout& layout, Matrix<const float> x,
                   Matrix<const float> x_previous, Matrix<float> x_last);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_WINDOW_H_
