// Argument of an optimizer's update; in its backend's memory.
#ifndef RECURVE_KERNELS_OPTIMIZER_ARGS_H_
#define RECURVE_KERNELS_OPTIMIZER_ARGS_H_

#include <cstdint>

namespace recurve {

enum class OptimizerKind { kSgd, kAdam, kAdamW };

// One update of `count` contiguous parameters. Formulas: torch.optim.SGD (with
// momentum, no dampening), Adam (L2 weight decay) and AdamW (decoupled).
struct OptimizerArgs {
  OptimizerKind kind = OptimizerKind::kSgd;
  int64_t count = 0;
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* first_moment = nullptr;   // momentum buffer or m; absent for plain SGD
  float* second_moment = nullptr;  // v; Adam and AdamW
  float gradient_scale = 1.0f;  // 1 / total weight, times the clipping factor
  float learning_rate = 0.0f;
  float momentum = 0.0f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.0f;
  int64_t step = 1;  // 1 at the first update
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_OPTIMIZER_ARGS_H_
