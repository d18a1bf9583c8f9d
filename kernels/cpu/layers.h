// The layers of kernels/layers on the CPU. Results are a pure function of the
// arguments: any number of threads gives the same bits, and a sequence's
// forward results do not depend on the rest of its batch.
//
// Errors: InvalidArgument for shapes that contradict each other or a missing
// buffer.
#ifndef RECURVE_KERNELS_CPU_LAYERS_H_
#define RECURVE_KERNELS_CPU_LAYERS_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"

namespace recurve::cpu {

absl::Status SruForward(const SruForwardArgs<float>& args);
absl::Status SruBackward(const SruBackwardArgs<float>& args);
absl::Status QrnnForward(const QrnnForwardArgs<float>& args);
absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args);
absl::Status LinearForward(const LinearForwardArgs<float>& args);
absl::Status LinearBackward(const LinearBackwardArgs<float>& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_LAYERS_H_
