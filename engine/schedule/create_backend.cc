#include "engine/schedule/device.h"
#include "kernels/cpu/backend.h"

namespace recurve {

std::unique_ptr<Backend> CreateBackend(const DeviceSpec& spec) {
  return CreateCpuBackend(spec.threads);
}

}  // namespace recurve
