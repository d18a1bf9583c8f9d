// QRNN's window of two rows: (x_t, previous row) side by side, so that one
// product serves both; kernels/layers/parts.h says what each function does.
#ifndef RECURVE_KERNELS_CPU_WINDOW_H_
#define RECURVE_KERNELS_CPU_WINDOW_H_

#include "kernels/tensor.h"

namespace recurve::cpu {

void FillWindowRows(const SequenceLayout& layout, Matrix<const float> x,
                    Matrix<const float> x_previous, Matrix<float> window_rows);

void GatherWindowGradient(const SequenceLayout& layout,
                          Matrix<const float> dwindow_rows, Matrix<float> dx);

void StoreLastRows(const SequenceLayout& layout, Matrix<const float> x,
                   Matrix<const float> x_previous, Matrix<float> x_last);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_WINDOW_H_
