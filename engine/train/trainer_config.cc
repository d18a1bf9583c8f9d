#include "engine/train/trainer_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/train/learning_rate.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status Bad(absl::string_view field, const absl::AlphaNum& value,
                 absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": is ", value, ", must be ", allowed));
}

// [0, 1)
absl::Status CheckFraction(absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Bad(field, value, "at least 0 and below 1");
}

absl::Status CheckNotNegative(absl::string_view field, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return Bad(field, value, "0 or more, and finite");
}

absl::Status ResolveSgd(const v1::OptimizerConfig::Sgd& sgd) {
  RETURN_IF_ERROR(CheckFraction("optimizer.sgd.momentum", sgd.momentum()));
  return CheckNotNegative("optimizer.sgd.weight_decay", sgd.weight_decay());
}

absl::Status ResolveAdam(absl::string_view name,
                         v1::OptimizerConfig::Adam& adam) {
  if (!adam.has_beta1()) adam.set_beta1(0.9f);
  if (!adam.has_beta2()) adam.set_beta2(0.999f);
  if (!adam.has_epsilon()) adam.set_epsilon(1e-8f);
  const auto field = [&](absl::string_view last) {
    return absl::StrCat("optimizer.", name, ".", last);
  };
  RETURN_IF_ERROR(CheckFraction(field("beta1"), adam.beta1()));
  RETURN_IF_ERROR(CheckFraction(field("beta2"), adam.beta2()));
  if (!(adam.epsilon() > 0 && std::isfinite(adam.epsilon()))) {
    return Bad(field("epsilon"), adam.epsilon(), "above 0 and finite");
  }
  return CheckNotNegative(field("weight_decay"), adam.weight_decay());
}

absl::Status ResolveOptimizer(v1::OptimizerConfig& optimizer) {
  switch (optimizer.kind_case()) {
    case v1::OptimizerConfig::kSgd:
      return ResolveSgd(optimizer.sgd());
    case v1::OptimizerConfig::kAdam:
      return ResolveAdam("adam", *optimizer.mutable_adam());
    case v1::OptimizerConfig::kAdamw:
      return ResolveAdam("adamw", *optimizer.mutable_adamw());
    case v1::OptimizerConfig::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "optimizer: is not set, must be sgd, adam or adamw");
}

}  // namespace

absl::StatusOr<v1::TrainerConfig> ResolveTrainerConfig(
    const v1::TrainerConfig& config) {
  v1::TrainerConfig resolved = config;
  if (resolved.accumulation_steps() == 0) resolved.set_accumulation_steps(1);
  if (resolved.micro_batch_rows() == 0) {
    resolved.set_micro_batch_rows(kDefaultMicroBatchRows);
  }
  RETURN_IF_ERROR(ResolveOptimizer(*resolved.mutable_optimizer()));
  RETURN_IF_ERROR(CheckLearningRate(resolved.learning_rate()));
  RETURN_IF_ERROR(
      CheckNotNegative("max_gradient_norm", resolved.max_gradient_norm()));
  if (resolved.accumulation_steps() < 1 ||
      resolved.accumulation_steps() > kMaxAccumulationSteps) {
    return Bad("accumulation_steps", resolved.accumulation_steps(),
               absl::StrCat("1 to ", kMaxAccumulationSteps));
  }
  if (resolved.micro_batch_rows() < 1 ||
      resolved.micro_batch_rows() > kMaxMicroBatchRows) {
    return Bad("micro_batch_rows", resolved.micro_batch_rows(),
               absl::StrCat("1 to ", kMaxMicroBatchRows));
  }
  return resolved;
}

OptimizerArgs MakeOptimizerArgs(const v1::OptimizerConfig& config) {
  OptimizerArgs args;
  if (config.has_sgd()) {
    args.kind = OptimizerKind::kSgd;
    args.momentum = config.sgd().momentum();
    args.weight_decay = config.sgd().weight_decay();
    return args;
  }
  const bool decoupled = config.has_adamw();
  const auto& adam = decoupled ? config.adamw() : config.adam();
  args.kind = decoupled ? OptimizerKind::kAdamW : OptimizerKind::kAdam;
  args.beta1 = adam.beta1();
  args.beta2 = adam.beta2();
  args.epsilon = adam.epsilon();
  args.weight_decay = adam.weight_decay();
  return args;
}

int NumMoments(const OptimizerArgs& optimizer) {
  if (optimizer.kind != OptimizerKind::kSgd) return 2;
  return optimizer.momentum != 0 ? 1 : 0;
}

}  // namespace recurve
