// Matrix products on the CPU, with two promises that libraries do
// not make (docs/determinism.md):
//
//   * the bits do not depend on the number of threads;
//   * a row of a product does not depend on how many rows there are, nor on
//     where it stands among them.
//
// They hold by construction: see kSumBlock in gemm_tile.h. oneDNN 2.6 keeps
// neither for narrow matrices: its one-row and few-column paths add in another
// order than its blocked ones, and long sums are split among threads.
#ifndef RECURVE_KERNELS_CPU_GEMM_H_
#define RECURVE_KERNELS_CPU_GEMM_H_

#include "absl/status/status.h"
#include "kernels/precision.h"
#include "kernels/product.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// c = a b, or c += a b. Any dimension may be 0 (an empty sum is 0). c must not
// overlap a or b. Uses the calling thread's OpenMP team.
//
// With kContinue the first kSumBlock terms go on from the sums in c, each a
// fused multiply-add: a sum of up to kSumBlock terms has the same bits whether
// it is taken in one call or, a range of its terms after the other, in several
// (with bf16, if all ranges but the last have an even number of terms).
//
// `precision` says what a and b are rounded to: nothing, or bf16, nearest even
// (narrow.h). Sums are float32 in both.
//
// REQUIRES: precision is kFloat32 or kBfloat16.
// Errors: InvalidArgument if the shapes do not fit.
absl::Status MatMul(const Factor<float>& a, const Factor<float>& b,
                    Matrix<float> c,
                    Destination destination = Destination::kOverwrite,
                    Precision precision = Precision::kFloat32);

// c = a b + bias, bias [c.cols] added to every row. Same promises.
absl::Status MatMulWithBias(const Factor<float>& a, const Factor<float>& b,
                            const float* bias, Matrix<float> c,
                            Precision precision = Precision::kFloat32);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_GEMM_H_
