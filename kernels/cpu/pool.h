// Pooling over time: one row a sequence.
#ifndef RECURVE_KERNELS_CPU_POOL_H_
#define RECURVE_KERNELS_CPU_POOL_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"

namespace recurve::cpu {

// y[b] = the last row of sequence b, the mean of its rows (summed in double, in
// time order), or their maximum in each channel. argmax, which may be absent,
// is the first row that has the maximum, -1 for a zero-length sequence; a NaN
// counts as the largest.
//
// Errors: InvalidArgument if the shapes contradict each other.
absl::Status PoolForward(const PoolArgs<float>& args);

// dx from dy, and argmax for kMax. Errors: as forward.
absl::Status PoolBackward(const PoolArgs<float>& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_POOL_H_
