#include "client/cpp/sampler.h"

#include <array>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(SamplerTest, TemperatureZeroTakesTheFirstLargest) {
  Sampler sampler(0, 1);
  EXPECT_EQ(sampler.Draw({1.0f, 3.0f, 3.0f, -2.0f}), 1);
}

TEST(SamplerTest, DrawsInProportionToTheSoftmax) {
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};
  Sampler sampler(1, 7);
  std::array<int, 3> counts = {};
  constexpr int kDraws = 80000;
  for (int i = 0; i < kDraws; ++i) ++counts[sampler.Draw(logits)];
  // Five standard deviations of a binomial of 80000.
  EXPECT_NEAR(counts[0], kDraws / 8.0, 5 * std::sqrt(kDraws * 7 / 64.0));
  EXPECT_NEAR(counts[1], kDraws / 4.0, 5 * std::sqrt(kDraws * 12 / 64.0));
}

TEST(SamplerTest, ALowTemperatureSharpens) {
  Sampler sampler(0.01, 3);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(sampler.Draw({0.0f, 1.0f}), 1);
}

TEST(SamplerTest, TheSeedDecides) {
  const std::vector<float> logits(100, 0.0f);
  Sampler a(1, 5), b(1, 5), c(1, 6);
  std::vector<int> from_a, from_b, from_c;
  for (int i = 0; i < 50; ++i) {
    from_a.push_back(a.Draw(logits));
    from_b.push_back(b.Draw(logits));
    from_c.push_back(c.Draw(logits));
  }
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
}

TEST(SamplerTest, HugeLogitsDoNotOverflow) {
  Sampler sampler(1, 1);
  EXPECT_EQ(sampler.Draw({1e30f, -1e30f}), 0);
}

}  // namespace
}  // namespace recurve
