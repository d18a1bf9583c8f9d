// A kernel that shows in which order blocks run.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_ORDER_KERNEL_H_
#define RECURVE_KERNELS_CUDA_EMULATION_ORDER_KERNEL_H_

#include "kernels/cuda/portable.h"

namespace recurve::cuda::emulation {

// order[b] = how many of the blocks ran before block b, of blocks of one
// thread. counter begins at 0.
struct BlockOrderParameters {
  int blocks;
  int* counter;
  int* order;
};
cudaError_t BlockOrder(const BlockOrderParameters& p, cudaStream_t stream);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_ORDER_KERNEL_H_
