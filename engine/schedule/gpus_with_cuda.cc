#include "engine/schedule/gpus.h"
#include "kernels/comm/nccl.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/devices.h"
#include "kernels/status.h"

namespace recurve {

absl::StatusOr<Gpu> FindGpu(int ordinal) {
  ASSIGN_OR_RETURN(const cuda::DeviceInfo info, cuda::GetDeviceInfo(ordinal));
  Gpu gpu;
  gpu.name = info.name;
  gpu.capability_major = info.capability_major;
  gpu.capability_minor = info.capability_minor;
  gpu.memory_bytes = info.total_bytes;
  gpu.free_bytes = info.free_bytes;
  return gpu;
}

absl::StatusOr<std::unique_ptr<Backend>> CreateGpuBackend(
    const DeviceSpec& spec) {
  return CreateCudaBackend(spec.ordinal, {.precision = spec.products});
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectGpus(
    absl::Span<const int> ordinals) {
  return CreateNcclCommunicators(ordinals);
}

}  // namespace recurve
