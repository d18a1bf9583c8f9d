#include "engine/serve/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

// The distribution as the header's words have it, slowly: every token with its
// probability, 0 for those that are cut.
std::vector<double> Distribution(const std::vector<float>& logits,
                                 const std::vector<bool>& seen,
                                 const SamplingOptions& options) {
  const int n = static_cast<int>(logits.size());
  std::vector<std::pair<double, int>> order;  // likeliest first
  for (int i = 0; i < n; ++i) {
    double z = logits[i];
    if (seen[i]) {
      z = z > 0 ? z / options.repetition_penalty
                : z * options.repetition_penalty;
    }
    order.push_back({-z / options.temperature, i});
  }
  std::sort(order.begin(), order.end());
  if (options.top_k > 0 && options.top_k < n) order.resize(options.top_k);
  double total = 0;
  for (const auto& [z, i] : order) total += std::exp(order[0].first - z);
  std::vector<double> probabilities(n);
  double kept = 0;
  for (const auto& [z, i] : order) {
    if (kept >= options.top_p * total) break;
    probabilities[i] = std::exp(order[0].first - z);
    kept += probabilities[i];
  }
  for (double& p : probabilities) p /= kept;
  return probabilities;
}

std::vector<float> RandomLogits(int count, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

// Each token lies where the tokens before it end, to the last digits of a
// float64: asked a little inside its ends.
TEST(SamplingTest, DrawsFromTheDistributionThatTheSettingsLeave) {
  std::mt19937 random(1);
  for (const int count : {1, 2, 7, 100}) {
    for (const double temperature : {0.1, 0.7, 1.0, 3.0}) {
      for (const int top_k : {0, 1, 3, 50, 1000}) {
        for (const double top_p : {1e-9, 0.3, 0.9, 1.0}) {
          for (const double penalty : {1.0, 1.5, 0.5}) {
            const std::vector<float> logits = RandomLogits(count, random);
            std::vector<bool> seen(count);
            for (int i = 0; i < count; ++i) seen[i] = random() % 2 == 0;
            const SamplingOptions options{temperature, top_k, top_p, penalty,
                                          0};
            const auto probabilities = Distribution(logits, seen, options);
            double begin = 0;
            for (int i = 0; i < count; ++i) {
              const double end = begin + probabilities[i];
              if (probabilities[i] > 1e-9) {
                EXPECT_EQ(DrawToken(logits, seen, options, begin + 1e-12), i);
                EXPECT_EQ(DrawToken(logits, seen, options, end - 1e-12), i);
              }
              begin = end;
            }
          }
        }
      }
    }
  }
}

TEST(SamplingTest, TheEndsOfTheIntervalDrawTokensThatWereKept) {
  const std::vector<float> logits = {-1000, 1, 2, -1000};
  const std::vector<bool> seen(4);
  EXPECT_EQ(DrawToken(logits, seen, {}, 0), 1);
  EXPECT_EQ(DrawToken(logits, seen, {}, 1 - 0x1p-53), 2);
  EXPECT_EQ(DrawToken(logits, seen, {.top_k = 1}, 0), 2);
}

TEST(SamplingTest, TemperatureZeroTakesTheLikeliestAndTheLowestOfEquals) {
  const std::vector<float> logits = {0, 3, -1, 3, 2};
  std::vector<bool> seen(5);
  for (const double uniform : {0.0, 0.999}) {
    EXPECT_EQ(DrawToken(logits, seen, {.temperature = 0}, uniform), 1);
  }
  seen[1] = true;
  const SamplingOptions penalized{.temperature = 0, .repetition_penalty = 1.1};
  EXPECT_EQ(DrawToken(logits, seen, penalized, 0), 3);
}

TEST(SamplingTest, OfEqualTokensTheLowerStay) {
  const std::vector<float> logits(6, 1.0f);
  const std::vector<bool> seen(6);
  EXPECT_EQ(DrawToken(logits, seen, {.top_k = 2}, 0.99), 1);
  EXPECT_EQ(DrawToken(logits, seen, {.top_p = 0.5}, 0.99), 2);
}

TEST(SamplingTest, HugeLogitsAndTinyTemperaturesAreNoTrouble) {
  const float huge = std::numeric_limits<float>::max();
  const std::vector<float> logits = {-huge, huge, 0};
  const std::vector<bool> seen(3);
  for (const double temperature : {1e-300, 1.0, 1e300}) {
    const int32_t token =
        DrawToken(logits, seen, {.temperature = temperature}, 0.5);
    EXPECT_EQ(token, 1) << temperature;
  }
  const LogProbabilities logs(logits);
  EXPECT_EQ(logs.Of(1), 0.0f);
}

// Pearson's statistic over many draws; 7 degrees of freedom, 1 in 10^6.
TEST(SamplingTest, FrequenciesAreTheProbabilities) {
  std::mt19937 random(2);
  const std::vector<float> logits = RandomLogits(8, random);
  const std::vector<bool> seen(8);
  const SamplingOptions options{.temperature = 1.3};
  const auto probabilities = Distribution(logits, seen, options);
  constexpr int kDraws = 20000;
  std::map<int32_t, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[DrawToken(logits, seen, options, SamplingUniform(5, i % 3, i))];
  }
  double statistic = 0;
  for (int i = 0; i < 8; ++i) {
    const double expected = probabilities[i] * kDraws;
    statistic += std::pow(counts[i] - expected, 2) / expected;
  }
  EXPECT_LT(statistic, 40.5);
}

TEST(SamplingTest, UniformsDependOnSeedSampleAndIndexAlone) {
  std::set<double> values;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    for (int64_t sample : {0, 1, 100}) {
      for (int64_t index : {int64_t{0}, int64_t{1}, int64_t{1} << 33}) {
        const double value = SamplingUniform(seed, sample, index);
        EXPECT_EQ(value, SamplingUniform(seed, sample, index));
        EXPECT_GE(value, 0);
        EXPECT_LT(value, 1);
        values.insert(value);
      }
    }
  }
  EXPECT_EQ(values.size(), 27u);
}

TEST(SamplingTest, LogProbabilitiesAreTheLogSoftmax) {
  std::mt19937 random(3);
  const std::vector<float> logits = RandomLogits(50, random);
  const auto probabilities = Distribution(logits, std::vector<bool>(50), {});
  const LogProbabilities logs(logits);
  for (int i = 0; i < 50; ++i) {
    EXPECT_NEAR(logs.Of(i), std::log(probabilities[i]), 1e-6);
  }
  const auto top = logs.Top(3);
  ASSERT_EQ(top.size(), 3u);
  for (int k = 0; k < 3; ++k) {
    const int rank = static_cast<int>(
        std::count_if(logits.begin(), logits.end(),
                      [&](float x) { return x > logits[top[k].token]; }));
    EXPECT_EQ(rank, k);
    EXPECT_EQ(top[k].log_probability, logs.Of(top[k].token));
  }
  EXPECT_EQ(logs.Top(1000).size(), 50u);
}

TEST(SamplingTest, BadSettingsAreNamed) {
  const double nan = std::nan("");
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(CheckSampling({}).ok());
  EXPECT_TRUE(CheckSampling({.temperature = 0}).ok());
  const std::pair<const char*, std::vector<SamplingOptions>> cases[] = {
      {"temperature",
       {{.temperature = -1}, {.temperature = nan}, {.temperature = inf}}},
      {"top_k", {{.top_k = -1}}},
      {"top_p", {{.top_p = 0}, {.top_p = 1.5}, {.top_p = nan}}},
      {"repetition_penalty",
       {{.repetition_penalty = 0}, {.repetition_penalty = nan}}},
  };
  for (const auto& [name, all] : cases) {
    for (const SamplingOptions& options : all) {
      const absl::Status status = CheckSampling(options);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(status.message().find(name), absl::string_view::npos);
    }
  }
  EXPECT_TRUE(CheckFinite({1.0f, -3.0f}).ok());
  EXPECT_EQ(CheckFinite({1.0f, std::nanf("")}).code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace recurve
