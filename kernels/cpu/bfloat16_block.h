// The serial part of a matrix product whose factors are rounded to bf16.
#ifndef RECURVE_KERNELS_CPU_BFLOAT16_BLOCK_H_
#define RECURVE_KERNELS_CPU_BFLOAT16_BLOCK_H_

#include "kernels/cpu/gemm_tile.h"

namespace recurve::cpu {

// As MultiplyBlock, with a's and b's elements rounded to
// bf16 and an element's sum in the order of MultiplyBfloat16 (dot_tile.h).
// Works in the thread's scratch.
void MultiplyBfloat16Block(const GemmBlock& block);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_BFLOAT16_BLOCK_H_
