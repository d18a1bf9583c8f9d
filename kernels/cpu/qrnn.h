// QRNN's recurrence on the CPU, along every (sequence, channel); the equations
// stand in qrnn_tile.cc. Any number of threads gives the same bits, and a
// sequence's forward results do not depend on the rest of its batch.
#ifndef RECURVE_KERNELS_CPU_QRNN_H_
#define RECURVE_KERNELS_CPU_QRNN_H_

#include "kernels/cell_args.h"

namespace recurve::cpu {

// What kernels/layers/parts.h asks for; shapes are not checked here.
void QrnnRecurrence(const QrnnForwardArgs<float>& args);
// The same from the rows that the projection multiplies (x, or window_rows),
// with weights.packed; args.u is not used, args.c absent.
void QrnnFused(const QrnnForwardArgs<float>& args);
void QrnnRecurrenceBackward(const QrnnBackwardArgs<float>& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_QRNN_H_
