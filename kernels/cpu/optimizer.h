// Optimizer updates: torch.optim's formulas, one pass over the parameters.
#ifndef RECURVE_KERNELS_CPU_OPTIMIZER_H_
#define RECURVE_KERNELS_CPU_OPTIMIZER_H_

#include "absl/status/status.h"
#include "kernels/optimizer_args.h"

namespace recurve::cpu {

// One update, element by element, on the calling thread's OpenMP team. Moments
// start as zeros. Sums and products round separately (nothing is fused), so
// that the bits are the same on every instruction set.
//
// Errors: InvalidArgument if a buffer that the kind needs is missing, or step
// is below 1.
absl::Status Update(const OptimizerArgs& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_OPTIMIZER_H_
