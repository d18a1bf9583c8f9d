// SRU's recurrence on the CPU, along every (sequence, channel); the equations
// stand in sru_tile.cc. Any number of threads gives the same bits, and a
// sequence's forward results do not depend on the rest of its batch.
#ifndef RECURVE_KERNELS_CPU_SRU_H_
#define RECURVE_KERNELS_CPU_SRU_H_

#include "kernels/cell_args.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// What kernels/layers/parts.h asks for; shapes are not checked here.
void SruRecurrence(const SruForwardArgs<float>& args, Matrix<float> y);
// The same from the rows that the projection multiplies, with weights.packed;
// args.u is not used, args.c absent.
void SruFused(const SruForwardArgs<float>& args, Matrix<const float> input,
              Matrix<float> y);
void SruRecurrenceBackward(const SruBackwardArgs<float>& args,
                           Matrix<const float> dy);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_SRU_H_
