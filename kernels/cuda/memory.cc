#include "kernels/cuda/memory.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/status.h"
#include "kernels/status.h"

namespace recurve::cuda {
namespace {

class CudaBuffer : public DeviceBuffer {
 public:
  CudaBuffer(int ordinal, void* data, int64_t bytes)
      : ordinal_(ordinal), data_(data), bytes_(bytes) {}
  // Nobody could do anything about an error here.
  ~CudaBuffer() override {
    cudaSetDevice(ordinal_);
    cudaFree(data_);
  }
  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  const int ordinal_;
  void* const data_;
  const int64_t bytes_;
};

absl::Status OutOfMemory(int ordinal, int64_t bytes) {
  size_t free = 0, total = 0;
  cudaGetLastError();  // or the next launch would report it again
  cudaMemGetInfo(&free, &total);
  return absl::ResourceExhaustedError(absl::StrCat("cuda:", ordinal, " has no ",
                                                   bytes, " bytes: ", free,
                                                   " of ", total, " are free"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceBuffer>> AllocateOn(int ordinal,
                                                         int64_t bytes) {
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes"));
  }
  RETURN_IF_ERROR(ToStatus(cudaSetDevice(ordinal), "cudaSetDevice"));
  void* data = nullptr;
  // No buffer's data is a null pointer, not even an empty one's.
  const cudaError_t error = cudaMalloc(&data, std::max<int64_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) return OutOfMemory(ordinal, bytes);
  RETURN_IF_ERROR(ToStatus(error, "cudaMalloc"));
  return std::make_unique<CudaBuffer>(ordinal, data, bytes);
}

}  // namespace recurve::cuda
