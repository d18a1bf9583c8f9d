#include "kernels/cuda/emulation/order_kernel.h"
#include "kernels/cuda/launch.h"

namespace recurve::cuda::emulation {

__global__ void BlockOrderKernel(const BlockOrderParameters p) {
  p.order[blockIdx.x] = atomicAdd(p.counter, 1);
}

cudaError_t BlockOrder(const BlockOrderParameters& p, cudaStream_t stream) {
  return cuda::Launch<BlockOrderKernel>(p.blocks, 1, stream, p);
}

}  // namespace recurve::cuda::emulation
