// The linear output layer on the CPU: y = x W^T + b, torch.nn.Linear's layout.
// Bits do not depend on threads; a row of y does not depend on other rows.
//
// Errors: InvalidArgument for shapes that contradict each other, Internal if
// the product library fails.
#ifndef RECURVE_KERNELS_CPU_LINEAR_H_
#define RECURVE_KERNELS_CPU_LINEAR_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"

namespace recurve::cpu {

absl::Status LinearForward(const LinearForwardArgs<float>& args);
absl::Status LinearBackward(const LinearBackwardArgs<float>& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_LINEAR_H_
