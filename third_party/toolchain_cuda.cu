#include <cuda_fp16.h>

#include "third_party/toolchain_cuda.h"

namespace recurve {

__global__ void AddOneKernel(float* data, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i] += 1.0f;
}

cudaError_t AddOne(float* data, int count) {
  AddOneKernel<<<(count + 255) / 256, 256>>>(data, count);
  return cudaGetLastError();
}

}  // namespace recurve
