// Rows of one matrix into rows of another.
#ifndef RECURVE_KERNELS_CPU_COPY_ROWS_H_
#define RECURVE_KERNELS_CPU_COPY_ROWS_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"

namespace recurve::cpu {

// Errors: InvalidArgument if the shapes contradict each other.
absl::Status CopyRows(const CopyRowsArgs& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_COPY_ROWS_H_
