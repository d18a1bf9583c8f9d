#include "kernels/cuda/emulation/work.h"

#include <string_view>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/memory.h"

namespace recurve::cuda::emulation {

void RunWork(const Work& work) {
  if (DeviceError(work.device) != cudaSuccess) return;
  if (work.is_kernel && ErrorOfKernel(work.device) != cudaSuccess) return;
  OpenDeviceMemory(work.memory);
  work.run();
  if (work.is_kernel) CheckGuards(work.name.c_str());
}

bool Overlap(const HostUse& a, const HostUse& b) {
  return a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes;
}

uint64_t Checksum(const HostUse& use) {
  return std::hash<std::string_view>()({use.begin, use.bytes});
}

}  // namespace recurve::cuda::emulation
