// Sums over the rows of a matrix: blocks of kRowBlock rows, added in order, so
// the bits do not depend on threads.
#ifndef RECURVE_KERNELS_CPU_COLUMN_SUM_H_
#define RECURVE_KERNELS_CPU_COLUMN_SUM_H_

#include "kernels/tensor.h"

namespace recurve::cpu {

// sums[j] = sum over rows of m[r][j]; sums is [m.cols]. With kContinue the
// first block's rows are added to what is there, one by one. Not with
// kAccumulate.
void ColumnSums(Matrix<const float> m, float* sums,
                Destination destination = Destination::kOverwrite);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_COLUMN_SUM_H_
