// How much memory each device may use, said before any is made.
#ifndef RECURVE_ENGINE_SCHEDULE_DEVICE_BUDGETS_H_
#define RECURVE_ENGINE_SCHEDULE_DEVICE_BUDGETS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/gpus.h"

namespace recurve {

// Sets memory_bytes where a spec has none, so that what does not fit is refused
// before the system or the GPU is out of memory:
//
//   * CPU devices: three quarters of `host_bytes`, shared equally among them
//     all;
//   * CUDA devices: fifteen sixteenths of what is free of their GPU, less the
//     budgets given to devices on it, shared equally with the others on it. The
//     rest is for what the driver and the libraries load later.
//
// `gpus` are FindGpus of the specs. Unavailable: a GPU too old for the kernels.
// InvalidArgument: budgets that are more than is free of a GPU, or one that the
// device's own workspace would fill.
absl::Status SetBudgets(std::vector<DeviceSpec>& specs, int64_t host_bytes,
                        const std::map<int, Gpu>& gpus);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_DEVICE_BUDGETS_H_
