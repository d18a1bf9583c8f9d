// Whether a backend does what the CPU backend does: every operation of Backend
// at random shapes, strides and options, each on the same inputs, within what
// rounding may differ by.
#ifndef RECURVE_KERNELS_CUDA_CONFORMANCE_H_
#define RECURVE_KERNELS_CUDA_CONFORMANCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace recurve::cuda {

struct Conformance {
  int64_t operations = 0;             // compared
  std::vector<std::string> failures;  // what differs most, and where
};

// product_precision: the largest relative error of a factor in `backend`'s
// products, 0 for float32.
Conformance CompareWithCpu(Backend& backend, uint32_t seed,
                           double product_precision = 0.0);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_CONFORMANCE_H_
