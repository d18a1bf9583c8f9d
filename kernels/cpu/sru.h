// SRU layers on the CPU (the equations stand in sru_tile.cc). Results are a
// pure function of the arguments: any number of threads gives the same bits,
// and a sequence's forward results do not depend on the rest of its batch.
//
// Errors: InvalidArgument for shapes that contradict each other or a missing
// buffer, Internal if the product library fails.
#ifndef RECURVE_KERNELS_CPU_SRU_H_
#define RECURVE_KERNELS_CPU_SRU_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"

namespace recurve::cpu {

absl::Status SruForward(const SruForwardArgs<float>& args);
absl::Status SruBackward(const SruBackwardArgs<float>& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_SRU_H_
