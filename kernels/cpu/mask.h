// Dropout and zoneout masks from counter-based random numbers.
//
// Element (sequence, position, channel) of a mask is lane channel % 4 of
//   Philox({channel / 4, position low, position high, sequence},
//   StreamKey(key))
// where sequence = first_sequence + b, and position is 0 for variational masks
// and positions[b] + t for row t of sequence b otherwise. It is kept if its
// UniformFloat is below keep_probability, a comparison of integers here.
#ifndef RECURVE_KERNELS_CPU_MASK_H_
#define RECURVE_KERNELS_CPU_MASK_H_

#include "absl/status/status.h"
#include "kernels/backend.h"

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
