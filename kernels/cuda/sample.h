// Tokens from logits: temperature, top-k and top-p of engine/serve/sampling.h
// for whole batches.
#ifndef RECURVE_KERNELS_CUDA_SAMPLE_H_
#define RECURVE_KERNELS_CUDA_SAMPLE_H_

#include <cstdint>

#include "kernels/cuda/portable.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// Tokens are ranked by descending logit, equals by ascending index. Of a row
//   * top_k keeps the first top_k tokens;
//   * top_p then keeps the shortest run of first tokens that holds
//     top_p of the probability that is left, at least one token;
// and the token is the first, by index, at which the running sum of the kept
// probabilities exceeds `uniform` of their sum. Probabilities are
// exp((logit - largest) / temperature).
template <typename S>
struct SampleArgs {
  Matrix<const S> logits;               // [R, V]; finite, or -inf but for one
  const float* temperatures = nullptr;  // [R]; 0: the first of the largest
  const int32_t* top_k = nullptr;       // [R]; below 1 or V: all; absent = all
  const float* top_p = nullptr;         // [R], above 0; absent = 1
  const double* uniforms = nullptr;     // [R], in [0, 1)
  int32_t* tokens = nullptr;            // [R] out
};

// A row's result depends on that row alone and is always the same:
// probabilities are added as integers, in units of 2^-40 of the largest (what
// is less likely is never drawn). V must be below 2^22.
template <typename S>
cudaError_t Sample(const SampleArgs<S>& args, cudaStream_t stream);

// indices[r] = the first of the largest of row r; a NaN counts as the largest.
template <typename S>
cudaError_t ArgmaxRows(Matrix<const S> m, int32_t* indices,
                       cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_SAMPLE_H_
