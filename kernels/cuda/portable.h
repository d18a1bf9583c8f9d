// What every file of kernels/cuda includes in place of CUDA's headers. Compiled
// with RECURVE_CUDA_EMULATION, the same sources run on the host
// (emulation/cuda_runtime.h): a block's threads one after the other between
// barriers, memory checked. What both understand:
//
//   * threadIdx, blockIdx, blockDim, gridDim; __syncthreads, __syncwarp; warp
//     shuffles and votes with full or partial masks;
//   * RECURVE_SHARED(float, tile, 32 * 33), a block's array; there is no
//     `extern __shared__`;
//   * float2, float4, uint2, uint4 and make_...; __float_as_uint and its kin;
//     __expf, __logf, __fdividef, rsqrtf, fmaf, __umulhi; the conversions of
//     kernels/cuda/storage.cuh;
//   * on the host side, the part of the CUDA runtime that cuda_runtime.h of the
//     emulation declares.
//
// cub, cooperative groups, inline assembly and texture memory are not among it.
#ifndef RECURVE_KERNELS_CUDA_PORTABLE_H_
#define RECURVE_KERNELS_CUDA_PORTABLE_H_

#ifdef RECURVE_CUDA_EMULATION

#include "kernels/cuda/emulation/cuda_runtime.h"

#else

#include <cuda_runtime.h>

#define RECURVE_SHARED(type, name, count) __shared__ type name[count]

#endif

#endif  // RECURVE_KERNELS_CUDA_PORTABLE_H_
