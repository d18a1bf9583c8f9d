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
  double compute_ms = 0;   // forward and backward, without serving in between
  double exchange_ms = 0;  // sum of gradients, waiting for the others included
  double update_ms = 0;    // gradient norm and optimizer
};

struct StepResult {
  int64_t step = 0;  // optimizer steps done
  bool updated = false;
  int32_t accumulated_calls = 0;  // since the last optimizer step
  double loss = 0;  // weighted mean over the call's rows; 0 without a batch
  double weight = 0;
  // Of the mean gradient, before clipping; if updated.
  double gradient_norm = 0;
  double learning_rate = 0;  // if updated
  int64_t rows = 0;
  std::vector<DeviceTime> devices;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_STEP_RESULT_H_
