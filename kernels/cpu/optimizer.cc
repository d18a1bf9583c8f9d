#include "kernels/cpu/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move this one above it.
#include "hwy/highway.h"

// Coefficients of one update; once, for all targets.
#ifndef RECURVE_KERNELS_CPU_OPTIMIZER_CC_
#define RECURVE_KERNELS_CPU_OPTIMIZER_CC_
namespace recurve::cpu {

struct SgdCoefficients {
  float gradient_scale;
  float weight_decay;
  float momentum;
  float learning_rate;
};

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

}  // namespace recurve::cpu
#endif  // RECURVE_KERNELS_CPU_OPTIMIZER_CC_

// The loops are plain C++, vectorised for each target.
HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

// g = scale * g + weight_decay * p;  p = p - lr * g
void SgdRange(const SgdCoefficients& k, const float* gradients,
              float* parameters, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float p = parameters[i];
    const float g = k.gradient_scale * gradients[i] + k.weight_decay * p;
    parameters[i] = p - k.learning_rate * g;
  }
}

// g = scale * g + weight_decay * p;  m = momentum * m + g;  p = p - lr * m
void MomentumRange(const SgdCoefficients& k, const float* gradients,
                   float* parameters, float* moments, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float p = parameters[i];
    const float g = k.gradient_scale * gradients[i] + k.weight_decay * p;
    const float m = k.momentum * moments[i] + g;
    moments[i] = m;
    parameters[i] = p - k.learning_rate * m;
  }
}

// g = scale * g + l2 * p
// m = beta1 * m + (1 - beta1) * g
// v = beta2 * v + (1 - beta2) * g^2
// p = decay * p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
void AdamRange(const AdamCoefficients& k, const float* gradients,
               float* parameters, float* first_moments, float* second_moments,
               int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float p = parameters[i];
    const float g = k.gradient_scale * gradients[i] + k.l2 * p;
    const float m = k.beta1 * first_moments[i] + k.one_minus_beta1 * g;
    const float v = k.beta2 * second_moments[i] + k.one_minus_beta2 * g * g;
    first_moments[i] = m;
    second_moments[i] = v;
    const float denominator = std::sqrt(v) / k.root_bias_correction + k.epsilon;
    parameters[i] = k.decay * p - k.step_size * m / denominator;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(SgdRange);
HWY_EXPORT(MomentumRange);
HWY_EXPORT(AdamRange);

namespace {

// Parameters that one piece of parallel work covers.
constexpr int64_t kPiece = 16 * 1024;

// Calls f(begin, count) for pieces of [0, count).
template <typename F>
void ForEachPiece(int64_t count, const F& f) {
  ParallelFor((count + kPiece - 1) / kPiece, count, [&](int64_t piece) {
    const int64_t begin = piece * kPiece;
    f(begin, std::min(kPiece, count - begin));
  });
}

absl::Status Missing(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("Update: no ", what));
}

absl::Status Check(const OptimizerArgs& args) {
  if (args.count < 0 || args.step < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Update: count is ", args.count, ", step is ", args.step));
  }
  if (args.count == 0) return absl::OkStatus();
  if (args.parameters == nullptr) return Missing("parameters");
  if (args.gradients == nullptr) return Missing("gradients");
  const bool adam = args.kind != OptimizerKind::kSgd;
  if ((adam || args.momentum != 0.0f) && args.first_moment == nullptr) {
    return Missing("first moment");
  }
  if (adam && args.second_moment == nullptr) return Missing("second moment");
  return absl::OkStatus();
}

void UpdateSgd(const OptimizerArgs& args) {
  const SgdCoefficients k = {args.gradient_scale, args.weight_decay,
                             args.momentum, args.learning_rate};
  if (args.momentum == 0.0f) {
    const auto update = HWY_DYNAMIC_DISPATCH(SgdRange);
    ForEachPiece(args.count, [&](int64_t begin, int64_t count) {
      update(k, args.gradients + begin, args.parameters + begin, count);
    });
    return;
  }
  const auto update = HWY_DYNAMIC_DISPATCH(MomentumRange);
  ForEachPiece(args.count, [&](int64_t begin, int64_t count) {
    update(k, args.gradients + begin, args.parameters + begin,
           args.first_moment + begin, count);
  });
}

// By multiplications alone: libm's pow is not the same on every machine.
double Power(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
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

void UpdateAdam(const OptimizerArgs& args) {
  const AdamCoefficients k = AdamCoefficientsOf(args);
  const auto update = HWY_DYNAMIC_DISPATCH(AdamRange);
  ForEachPiece(args.count, [&](int64_t begin, int64_t count) {
    update(k, args.gradients + begin, args.parameters + begin,
           args.first_moment + begin, args.second_moment + begin, count);
  });
}

}  // namespace

absl::Status Update(const OptimizerArgs& args) {
  if (absl::Status status = Check(args); !status.ok()) return status;
  if (args.kind == OptimizerKind::kSgd) {
    UpdateSgd(args);
  } else {
    UpdateAdam(args);
  }
  return absl::OkStatus();
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
