#include "kernels/optimizer_coefficients.h"

#include <cmath>
#include <cstdint>

namespace recurve {
namespace {

// By multiplications alone: libm's pow is not the same on every machine.
double Power(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

}  // namespace

SgdCoefficients SgdCoefficientsOf(const OptimizerArgs& args) {
  return {args.gradient_scale, args.weight_decay, args.momentum,
          args.learning_rate};
}

// 1 - beta^step and what follows from it are computed in double: in float,
// 1 - 0.999 alone is off by 1e-5.
AdamCoefficients AdamCoefficientsOf(const OptimizerArgs& args) {
  const double beta1 = args.beta1;
  const double beta2 = args.beta2;
  const double lr = args.learning_rate;
  const bool decoupled = args.kind == OptimizerKind::kAdamW;
  AdamCoefficients k;
  k.gradient_scale = args.gradient_scale;
  k.l2 = decoupled ? 0.0f : args.weight_decay;
  k.decay = decoupled ? static_cast<float>(1.0 - lr * args.weight_decay) : 1.0f;
  k.beta1 = args.beta1;
  k.one_minus_beta1 = static_cast<float>(1.0 - beta1);
  k.beta2 = args.beta2;
  k.one_minus_beta2 = static_cast<float>(1.0 - beta2);
  k.step_size = static_cast<float>(lr / (1.0 - Power(beta1, args.step)));
  k.root_bias_correction =
      static_cast<float>(std::sqrt(1.0 - Power(beta2, args.step)));
  k.epsilon = args.epsilon;
  return k;
}

}  // namespace recurve
