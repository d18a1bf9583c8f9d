#include "engine/train/learning_rate.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;

v1::LearningRateConfig Parse(const std::string& text) {
  v1::LearningRateConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config))
      << text;
  return config;
}

// All values are exact in binary, or computed to 1e-15.
TEST(LearningRate, ConstantIsThePeak) {
  const auto config = Parse("peak: 0.25");
  EXPECT_EQ(LearningRate(config, 1), 0.25);
  EXPECT_EQ(LearningRate(config, 1'000'000'000'000), 0.25);
}

TEST(LearningRate, CosineRisesThenFallsToItsFinalFraction) {
  const auto config = Parse(
      "peak: 0.5 warmup_cosine { warmup_steps: 4 total_steps: 12 "
      "final_fraction: 0.25 }");
  EXPECT_EQ(LearningRate(config, 1), 0.125);
  EXPECT_EQ(LearningRate(config, 3), 0.375);
  EXPECT_EQ(LearningRate(config, 4), 0.5);
  // A quarter of the way: 0.25 + 0.75 (1 + sqrt(1/2)) / 2 of the peak.
  EXPECT_NEAR(LearningRate(config, 6),
              0.5 * (0.25 + 0.375 * (1 + std::sqrt(0.5))), 1e-15);
  EXPECT_NEAR(LearningRate(config, 8), 0.5 * 0.625, 1e-15);
  EXPECT_EQ(LearningRate(config, 12), 0.125);
  EXPECT_EQ(LearningRate(config, 1000), 0.125);
}

TEST(LearningRate, CosineWithoutWarmUpStartsBelowThePeak) {
  const auto config = Parse("peak: 1 warmup_cosine { total_steps: 2 }");
  EXPECT_NEAR(LearningRate(config, 1), 0.5, 1e-15);
  EXPECT_EQ(LearningRate(config, 2), 0);
}

TEST(LearningRate, InverseSqrtFallsFromThePeakAtTheEndOfWarmUp) {
  const auto config = Parse("peak: 2 warmup_inverse_sqrt { warmup_steps: 16 }");
  EXPECT_EQ(LearningRate(config, 4), 0.5);
  EXPECT_EQ(LearningRate(config, 16), 2);
  EXPECT_EQ(LearningRate(config, 64), 1);
  EXPECT_EQ(LearningRate(config, 256), 0.5);
}

TEST(LearningRate, StepDecayMultipliesEveryFewSteps) {
  const auto config =
      Parse("peak: 8 step_decay { every_steps: 10 factor: 0.5 }");
  EXPECT_EQ(LearningRate(config, 1), 8);
  EXPECT_EQ(LearningRate(config, 10), 8);
  EXPECT_EQ(LearningRate(config, 11), 4);
  EXPECT_EQ(LearningRate(config, 20), 4);
  EXPECT_EQ(LearningRate(config, 31), 1);
}

TEST(CheckLearningRate, TakesEveryShape) {
  for (const char* text :
       {"peak: 1e-3", "peak: 1 warmup_cosine { total_steps: 1 }",
        "peak: 1 warmup_cosine { warmup_steps: 9 total_steps: 10 "
        "final_fraction: 1 }",
        "peak: 1 warmup_inverse_sqrt { warmup_steps: 1 }",
        "peak: 1 step_decay { every_steps: 1 factor: 1 }"}) {
    EXPECT_TRUE(CheckLearningRate(Parse(text)).ok())
        << CheckLearningRate(Parse(text));
  }
}

TEST(CheckLearningRate, NamesTheFieldAndWhatIsAllowed) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"", "learning_rate.peak: is 0, must be above 0"},
      {"peak: -1", "learning_rate.peak: is -1"},
      {"peak: nan", "learning_rate.peak: is nan"},
      {"peak: inf", "learning_rate.peak: is inf"},
      {"peak: 1 warmup_cosine { warmup_steps: -1 total_steps: 5 }",
       "warmup_cosine.warmup_steps: is -1, must be 0 or more"},
      {"peak: 1 warmup_cosine { warmup_steps: 5 total_steps: 5 }",
       "warmup_cosine.total_steps: is 5, must be above warmup_steps, 5"},
      {"peak: 1 warmup_cosine { total_steps: 5 final_fraction: 1.5 }",
       "warmup_cosine.final_fraction: is 1.5, must be 0 to 1"},
      {"peak: 1 warmup_cosine { total_steps: 5 final_fraction: nan }",
       "warmup_cosine.final_fraction: is nan"},
      {"peak: 1 warmup_inverse_sqrt { }",
       "warmup_inverse_sqrt.warmup_steps: is 0, must be 1 or more"},
      {"peak: 1 step_decay { factor: 0.5 }",
       "step_decay.every_steps: is 0, must be 1 or more"},
      {"peak: 1 step_decay { every_steps: 5 }",
       "step_decay.factor: is 0, must be above 0"},
      {"peak: 1 step_decay { every_steps: 5 factor: 1.5 }",
       "step_decay.factor: is 1.5"},
  };
  for (const auto& [text, message] : kCases) {
    const absl::Status status = CheckLearningRate(Parse(text));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << text;
  }
}

}  // namespace
}  // namespace recurve
