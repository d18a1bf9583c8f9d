// Variational masks: one row of factors a sequence, for all of its rows;
// kernels/layers/parts.h says how.
#ifndef RECURVE_KERNELS_CPU_ROW_MASK_H_
#define RECURVE_KERNELS_CPU_ROW_MASK_H_

#include "kernels/tensor.h"

namespace recurve::cpu {

void MultiplyBySequenceMask(const SequenceLayout& layout, Matrix<const float> x,
                            Matrix<const float> mask, Matrix<float> y,
                            Destination destination);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_ROW_MASK_H_
