// Arithmetic on whole tensors, on the calling thread's OpenMP team.
#ifndef RECURVE_KERNELS_CPU_ELEMENTWISE_H_
#define RECURVE_KERNELS_CPU_ELEMENTWISE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// x[i] *= mask[i]. Errors: InvalidArgument if the shapes differ.
absl::Status Multiply(Matrix<float> x, Matrix<const float> mask);

// to[i] += from[i]. Errors: InvalidArgument if count < 0.
absl::Status Add(float* to, const float* from, int64_t count);

// Sum of squares in double: blocks of 4096 elements, each in 16 interleaved
// sums, added in order. The bits depend on the data alone, on every instruction
// set. Errors: InvalidArgument if count < 0.
absl::StatusOr<double> SumOfSquares(const float* data, int64_t count);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_ELEMENTWISE_H_
