// What a training step says about itself.
#ifndef RECURVE_ENGINE_TRAIN_STEP_RESULT_H_
#define RECURVE_ENGINE_TRAIN_STEP_RESULT_H_

#include <cstdint>
#include <string>
#include <vector>

namespace recurve {

struct DeviceTime {
  std::string device;  // devices/N
  int64_t micro_batches = 0;
  int64_t rows = 0;
  double compute_ms = 0;
  double exchange_ms = 0;
  double update_ms = 0;
};

struct StepResult {
  int64_t step = 0;  // optimizer steps done
  bool updated = false;
  double loss = 0;  // weighted mean over the call's rows
  double weight = 0;
  double gradient_norm =
      0;  // of the mean gradient, before clipping; if updated
  double learning_rate = 0;  // if updated
  int64_t rows = 0;
  std::vector<DeviceTime> devices;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_STEP_RESULT_H_
