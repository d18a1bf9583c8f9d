// Between float and the 16-bit storage types, to nearest even.
#ifndef RECURVE_KERNELS_CUDA_CAST_H_
#define RECURVE_KERNELS_CUDA_CAST_H_

#include <cstdint>

#include "kernels/cuda/portable.h"
#include "kernels/storage.h"

namespace recurve::cuda {

// to[i] = from[i]. One of From and To is float, the other BFloat16 or Float16.
template <typename From, typename To>
cudaError_t Cast(const From* from, To* to, int64_t count, cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_CAST_H_
