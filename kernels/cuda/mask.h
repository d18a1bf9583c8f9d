// Dropout and zoneout masks: the CPU backend's bits (kernels/mask_stream.h).
#ifndef RECURVE_KERNELS_CUDA_MASK_H_
#define RECURVE_KERNELS_CUDA_MASK_H_

#include "kernels/cuda/portable.h"
#include "kernels/mask_args.h"

namespace recurve::cuda {

cudaError_t FillMask(const MaskArgs& args, cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_MASK_H_
