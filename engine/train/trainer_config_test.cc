#include "engine/train/trainer_config.h"

#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;

v1::TrainerConfig Parse(const std::string& text) {
  v1::TrainerConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return config;
}

TEST(ResolveTrainerConfig, FillsInWhatIsNotSet) {
  const auto config = ResolveTrainerConfig(
      Parse("optimizer { adam {} } learning_rate { peak: 0.5 }"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->accumulation_steps(), 1);
  EXPECT_EQ(config->micro_batch_rows(), 1024);
  EXPECT_EQ(config->max_gradient_norm(), 0);
  EXPECT_EQ(config->optimizer().adam().beta1(), 0.9f);
  EXPECT_EQ(config->optimizer().adam().beta2(), 0.999f);
  EXPECT_EQ(config->optimizer().adam().epsilon(), 1e-8f);
}

TEST(ResolveTrainerConfig, KeepsWhatIsSet) {
  const auto config = ResolveTrainerConfig(
      Parse("optimizer { adamw { beta1: 0 beta2: 0.5 epsilon: 1 "
            "weight_decay: 0.25 } } learning_rate { peak: 0.5 } "
            "accumulation_steps: 3 micro_batch_rows: 7 seed: 9"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->accumulation_steps(), 3);
  EXPECT_EQ(config->micro_batch_rows(), 7);
  EXPECT_EQ(config->seed(), 9u);
  const OptimizerArgs args = MakeOptimizerArgs(config->optimizer());
  EXPECT_EQ(args.kind, OptimizerKind::kAdamW);
  EXPECT_EQ(args.beta1, 0);
  EXPECT_EQ(args.beta2, 0.5f);
  EXPECT_EQ(args.epsilon, 1);
  EXPECT_EQ(args.weight_decay, 0.25f);
}

TEST(ResolveTrainerConfig, NamesTheFieldAndWhatIsAllowed) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"", "optimizer: is not set, must be sgd, adam or adamw"},
      {"optimizer { sgd { momentum: 1 } }",
       "optimizer.sgd.momentum: is 1, must be at least 0 and below 1"},
      {"optimizer { sgd { weight_decay: -1 } }",
       "optimizer.sgd.weight_decay: is -1, must be 0 or more"},
      {"optimizer { adam { beta1: 1 } }", "optimizer.adam.beta1: is 1"},
      {"optimizer { adamw { beta2: nan } }", "optimizer.adamw.beta2: is nan"},
      {"optimizer { adam { epsilon: 0 } }",
       "optimizer.adam.epsilon: is 0, must be above 0 and finite"},
      {"optimizer { adamw { weight_decay: inf } }",
       "optimizer.adamw.weight_decay: is inf"},
      {"optimizer { sgd {} }", "learning_rate.peak: is 0"},
      {"optimizer { sgd {} } learning_rate { peak: 1 } max_gradient_norm: -1",
       "max_gradient_norm: is -1, must be 0 or more"},
      {"optimizer { sgd {} } learning_rate { peak: 1 } accumulation_steps: -1",
       "accumulation_steps: is -1, must be 1 to 1048576"},
      {"optimizer { sgd {} } learning_rate { peak: 1 } micro_batch_rows: -1",
       "micro_batch_rows: is -1, must be 1 to 16777216"},
      {"optimizer { sgd {} } learning_rate { peak: 1 } "
       "micro_batch_rows: 9223372036854775807",
       "micro_batch_rows: is 9223372036854775807, must be"},
  };
  for (const auto& [text, message] : kCases) {
    const auto resolved = ResolveTrainerConfig(Parse(text));
    EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
    EXPECT_THAT(std::string(resolved.status().message()), HasSubstr(message))
        << text;
  }
}

TEST(NumMoments, FollowsTheOptimizer) {
  const auto count = [](const std::string& optimizer) {
    const auto config = ResolveTrainerConfig(
        Parse("optimizer { " + optimizer + " } learning_rate { peak: 1 }"));
    EXPECT_TRUE(config.ok()) << config.status();
    return NumMoments(MakeOptimizerArgs(config->optimizer()));
  };
  EXPECT_EQ(count("sgd {}"), 0);
  EXPECT_EQ(count("sgd { momentum: 0.5 }"), 1);
  EXPECT_EQ(count("adam {}"), 2);
  EXPECT_EQ(count("adamw {}"), 2);
}

}  // namespace
}  // namespace recurve
