// Optimizer updates: torch.optim's formulas, one launch and one pass over all
// parameters. Sums and products round separately, as on the CPU, and the bits
// are the CPU backend's.
#ifndef RECURVE_KERNELS_CUDA_OPTIMIZER_H_
#define RECURVE_KERNELS_CUDA_OPTIMIZER_H_

#include "kernels/cuda/portable.h"
#include "kernels/optimizer_args.h"

namespace recurve::cuda {

cudaError_t Update(const OptimizerArgs& args, cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_OPTIMIZER_H_
