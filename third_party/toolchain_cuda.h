#ifndef RECURVE_THIRD_PARTY_TOOLCHAIN_CUDA_H_
#define RECURVE_THIRD_PARTY_TOOLCHAIN_CUDA_H_

#include <cuda_runtime_api.h>

namespace recurve {

// data[i] += 1, on the GPU.
cudaError_t AddOne(float* data, int count);

}  // namespace recurve

#endif  // RECURVE_THIRD_PARTY_TOOLCHAIN_CUDA_H_
