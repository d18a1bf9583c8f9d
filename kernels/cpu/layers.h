// The layers of kernels/layers on the CPU. Results are a pure function of the
// arguments: any number of threads gives the same bits, and a sequence's
// forward results do not depend on the rest of its batch.
//
// Their matrix products round factors as `products` says (gemm.h).
//
// Errors: InvalidArgument for shapes that contradict each other or a missing
// buffer.
#ifndef RECURVE_KERNELS_CPU_LAYERS_H_
#define RECURVE_KERNELS_CPU_LAYERS_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"
#include "kernels/precision.h"

namespace recurve::cpu {

absl::Status SruForward(const SruForwardArgs<float>& args,
                        Precision products = Precision::kFloat32);
absl::Status SruBackward(const SruBackwardArgs<float>& args,
                         Precision products = Precision::kFloat32);
absl::Status QrnnForward(const QrnnForwardArgs<float>& args,
                         Precision products = Precision::kFloat32);
absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args,
                          Precision products = Precision::kFloat32);
absl::Status LinearForward(const LinearForwardArgs<float>& args,
                           Precision products = Precision::kFloat32);
absl::Status LinearBackward(const LinearBackwardArgs<float>& args,
                            Precision products = Precision::kFloat32);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_LAYERS_H_
