#include "engine/train/learning_rate.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

absl::Status Bad(absl::string_view field, const absl::AlphaNum& value,
                 absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(
      "learning_rate.", field, ": is ", value, ", must be ", allowed));
}

absl::Status CheckCosine(const v1::LearningRateConfig::WarmupCosine& shape) {
  if (shape.warmup_steps() < 0) {
    return Bad("warmup_cosine.warmup_steps", shape.warmup_steps(), "0 or more");
  }
  if (shape.total_steps() <= shape.warmup_steps()) {
    return Bad("warmup_cosine.total_steps", shape.total_steps(),
               absl::StrCat("above warmup_steps, ", shape.warmup_steps()));
  }
  if (!(shape.final_fraction() >= 0 && shape.final_fraction() <= 1)) {
    return Bad("warmup_cosine.final_fraction", shape.final_fraction(),
               "0 to 1");
  }
  return absl::OkStatus();
}

absl::Status CheckDecay(const v1::LearningRateConfig::StepDecay& shape) {
  if (shape.every_steps() < 1) {
    return Bad("step_decay.every_steps", shape.every_steps(), "1 or more");
  }
  if (!(shape.factor() > 0 && shape.factor() <= 1)) {
    return Bad("step_decay.factor", shape.factor(), "above 0 and at most 1");
  }
  return absl::OkStatus();
}

double Cosine(const v1::LearningRateConfig::WarmupCosine& shape, double step) {
  const double warmup = static_cast<double>(shape.warmup_steps());
  const double total = static_cast<double>(shape.total_steps());
  const double last = shape.final_fraction();
  if (step < warmup) return step / warmup;
  if (step >= total) return last;
  const double way = (step - warmup) / (total - warmup);
  return last + (1 - last) * (1 + std::cos(std::numbers::pi * way)) / 2;
}

double InverseSqrt(const v1::LearningRateConfig::WarmupInverseSqrt& shape,
                   double step) {
  const double warmup = static_cast<double>(shape.warmup_steps());
  return step < warmup ? step / warmup : std::sqrt(warmup / step);
}

double Decay(const v1::LearningRateConfig::StepDecay& shape, int64_t step) {
  const int64_t decays = (step - 1) / shape.every_steps();
  return std::pow(static_cast<double>(shape.factor()),
                  static_cast<double>(decays));
}

}  // namespace

absl::Status CheckLearningRate(const v1::LearningRateConfig& config) {
  if (!(config.peak() > 0 && std::isfinite(config.peak()))) {
    return Bad("peak", config.peak(), "above 0 and finite");
  }
  switch (config.shape_case()) {
    case v1::LearningRateConfig::kWarmupCosine:
      return CheckCosine(config.warmup_cosine());
    case v1::LearningRateConfig::kWarmupInverseSqrt:
      if (config.warmup_inverse_sqrt().warmup_steps() < 1) {
        return Bad("warmup_inverse_sqrt.warmup_steps",
                   config.warmup_inverse_sqrt().warmup_steps(), "1 or more");
      }
      return absl::OkStatus();
    case v1::LearningRateConfig::kStepDecay:
      return CheckDecay(config.step_decay());
    case v1::LearningRateConfig::SHAPE_NOT_SET:
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

double LearningRate(const v1::LearningRateConfig& config, int64_t step) {
  const double peak = config.peak(), s = static_cast<double>(step);
  switch (config.shape_case()) {
    case v1::LearningRateConfig::kWarmupCosine:
      return peak * Cosine(config.warmup_cosine(), s);
    case v1::LearningRateConfig::kWarmupInverseSqrt:
      return peak * InverseSqrt(config.warmup_inverse_sqrt(), s);
    case v1::LearningRateConfig::kStepDecay:
      return peak * Decay(config.step_decay(), step);
    case v1::LearningRateConfig::SHAPE_NOT_SET:
      return peak;
  }
  return peak;
}

}  // namespace recurve
