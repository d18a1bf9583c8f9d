// The numbers of one optimizer update that are the same for all parameters.
// Every backend takes them from here.
#ifndef RECURVE_KERNELS_OPTIMIZER_COEFFICIENTS_H_
#define RECURVE_KERNELS_OPTIMIZER_COEFFICIENTS_H_

#include "kernels/optimizer_args.h"

namespace recurve {

// g = scale * g + weight_decay * p;  m = momentum * m + g;  p = p - lr * m
// (g in m's place without momentum).
struct SgdCoefficients {
  float gradient_scale;
  float weight_decay;
  float momentum;
  float learning_rate;
};

// g = scale * g + l2 * p
// m = beta1 * m + (1 - beta1) * g
// v = beta2 * v + (1 - beta2) * g * g
// p = decay * p - step_size * m / (sqrt(v) / root_bias_correction + epsilon)
struct AdamCoefficients {
  float gradient_scale;
  float l2;     // weight decay of Adam, added to the gradient; 0 for AdamW
  float decay;  // 1 - lr * weight_decay for AdamW; 1 for Adam
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;             // lr / (1 - beta1^step)
  float root_bias_correction;  // sqrt(1 - beta2^step)
  float epsilon;
};

SgdCoefficients SgdCoefficientsOf(const OptimizerArgs& args);
AdamCoefficients AdamCoefficientsOf(const OptimizerArgs& args);

}  // namespace recurve

#endif  // RECURVE_KERNELS_OPTIMIZER_COEFFICIENTS_H_
