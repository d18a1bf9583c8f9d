// Dropout and zoneout masks from counter-based random numbers.
// kernels/mask_stream.h says which number decides an element.
#ifndef RECURVE_KERNELS_CPU_MASK_H_
#define RECURVE_KERNELS_CPU_MASK_H_

#include "absl/status/status.h"
#include "kernels/mask_args.h"

namespace recurve::cpu {

// Fills args.mask, on the calling thread's OpenMP team. Neither threads nor the
// cut of a call into micro-batches change a bit.
//
// Errors: InvalidArgument if the mask does not have a row for each sequence
// (variational) or row, keep_probability is not in [0, 1], or a sequence index
// or channel does not fit its 32-bit word of the counter.
absl::Status FillMask(const MaskArgs& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_MASK_H_
