#include "kernels/cpu/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/args_check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/optimizer_coefficients.h"
#include "kernels/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizer.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move this one above it.
#include "hwy/highway.h"

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

void UpdateSgd(const OptimizerArgs& args) {
  const SgdCoefficients k = SgdCoefficientsOf(args);
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
  RETURN_IF_ERROR(CheckUpdate(args));
  if (args.kind == OptimizerKind::kSgd) {
    UpdateSgd(args);
  } else {
    UpdateAdam(args);
  }
  return absl::OkStatus();
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
