#include "kernels/cuda/sample.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Settings {
  float temperature = 1.0f;
  int32_t top_k = 0;
  float top_p = 1.0f;
  double uniform = 0.0;
};

// Tokens in the order of rank.
std::vector<int64_t> Ranked(const double* logits, int64_t cols) {
  std::vector<int64_t> order(cols);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
  return order;
}

// Draws as sample.h says, by sorting. Probabilities that one row's draw comes
// close to deciding by rounding are avoided by the tests' inputs.
int32_t Draw(const double* logits, int64_t cols, const Settings& settings) {
  std::vector<int64_t> kept = Ranked(logits, cols);
  const int64_t first = kept[0];
  if (settings.temperature == 0) return static_cast<int32_t>(first);
  if (settings.top_k > 0 && settings.top_k < cols) kept.resize(settings.top_k);
  const auto weight = [&](int64_t j) {
    return std::exp((logits[j] - logits[first]) / settings.temperature);
  };
  double sum = 0;
  for (const int64_t j : kept) sum += weight(j);
  if (settings.top_p < 1) {
    double run = 0;
    size_t length = 0;
    do {
      run += weight(kept[length++]);
    } while (run < settings.top_p * sum - 1e-9);
    kept.resize(length);
    sum = run;
  }
  std::sort(kept.begin(), kept.end());
  double run = 0;
  for (const int64_t j : kept) {
    run += weight(j);
    if (run > settings.uniform * sum) return static_cast<int32_t>(j);
  }
  return static_cast<int32_t>(first);
}

template <typename S>
DeviceArray<int32_t> SampleRows(const DeviceMatrix<S>& logits,
                                const std::vector<Settings>& rows) {
  std::vector<float> temperatures, top_p;
  std::vector<int32_t> top_k;
  std::vector<double> uniforms;
  for (const Settings& row : rows) {
    temperatures.push_back(row.temperature);
    top_k.push_back(row.top_k);
    top_p.push_back(row.top_p);
    uniforms.push_back(row.uniform);
  }
  const DeviceArray<float> device_temperatures(temperatures),
      device_top_p(top_p);
  const DeviceArray<int32_t> device_top_k(top_k);
  const DeviceArray<double> device_uniforms(uniforms);
  DeviceArray<int32_t> tokens(rows.size());
  EXPECT_EQ(Sample<S>({.logits = logits.constant(),
                       .temperatures = device_temperatures.data(),
                       .top_k = device_top_k.data(),
                       .top_p = device_top_p.data(),
                       .uniforms = device_uniforms.data(),
                       .tokens = tokens.data()},
                      nullptr),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  return tokens;
}

std::vector<Settings> AllSettings() {
  std::vector<Settings> all;
  for (const float temperature : {0.0f, 0.7f, 2.0f}) {
    for (const int32_t top_k : {0, 1, 5, 1 << 20}) {
      for (const float top_p : {0.01f, 0.6f, 1.0f}) {
        for (const double uniform : {0.0, 0.37, 0.99}) {
          all.push_back({temperature, top_k, top_p, uniform});
        }
      }
    }
  }
  return all;
}

template <typename S>
class CudaSample : public ::testing::Test {};
TYPED_TEST_SUITE(CudaSample, StorageTypes);

TYPED_TEST(CudaSample, DrawsAsASortWould) {
  using S = TypeParam;
  const std::vector<Settings> settings = AllSettings();
  for (const Width& width : {Width{1, 1}, Width{37, 40}, Width{300, 301}}) {
    const auto rows = static_cast<int64_t>(settings.size());
    const std::vector<S> logits =
        RandomStored<S>(rows * width.cols, width.cols, 3.0f);
    const DeviceArray<int32_t> tokens =
        SampleRows(DeviceMatrix<S>(rows, width, logits), settings);
    const Doubles doubles = ToDoubles(logits);
    std::vector<int32_t> expected;
    for (int64_t r = 0; r < rows; ++r) {
      expected.push_back(
          Draw(&doubles[r * width.cols], width.cols, settings[r]));
    }
    emulation::ExpectEqual(tokens, expected);
  }
}

// Of one row of floats.
int32_t SampleOne(const std::vector<float>& logits, const Settings& settings) {
  const auto cols = static_cast<int64_t>(logits.size());
  const DeviceMatrix<float> row(1, {cols, cols}, logits);
  return SampleRows(row, {settings}).Download()[0];
}

TEST(CudaSampleRules, GreedyTakesTheFirstLargest) {
  EXPECT_EQ(SampleOne({1.0f, 3.0f, 3.0f, -2.0f}, {.temperature = 0.0f}), 1);
}

TEST(CudaSampleRules, TopKKeepsTheFirstOfEquals) {
  const std::vector<float> logits = {0.0f, 2.0f, 2.0f, 2.0f, 1.0f};
  EXPECT_EQ(SampleOne(logits, {.top_k = 2, .uniform = 0.0}), 1);
  EXPECT_EQ(SampleOne(logits, {.top_k = 2, .uniform = 0.49}), 1);
  EXPECT_EQ(SampleOne(logits, {.top_k = 2, .uniform = 0.51}), 2);
  EXPECT_EQ(SampleOne(logits, {.top_k = 2, .uniform = 0.999}), 2);
}

// Which of them a thread keeps depends on how many others have, in all warps.
TEST(CudaSampleRules, TopKCountsEqualsOfAllThreads) {
  const std::vector<float> logits(1000, 0.5f);
  for (const int32_t token : {0, 1, 100, 500, 899}) {
    const double uniform = (token + 0.5) / 900;
    EXPECT_EQ(SampleOne(logits, {.top_k = 900, .uniform = uniform}), token);
  }
}

TEST(CudaSampleRules, LogitsMayBeFarFromZero) {
  for (const float shift : {-200.0f, 200.0f}) {
    const std::vector<float> logits = {shift, shift + 2.0f, shift + 1.0f};
    EXPECT_EQ(SampleOne(logits, {.uniform = 0.05}), 0);
    EXPECT_EQ(SampleOne(logits, {.uniform = 0.5}), 1);
    EXPECT_EQ(SampleOne(logits, {.uniform = 0.9}), 2);
    EXPECT_EQ(SampleOne(logits, {.top_p = 0.7f, .uniform = 0.9}), 2);
  }
}

TEST(CudaSampleRules, TopPKeepsTheShortestRunThatHoldsIt) {
  // Probabilities 1/8, 1/2, 1/8, 1/4.
  const std::vector<float> logits = {0.0f, std::log(4.0f), 0.0f,
                                     std::log(2.0f)};
  EXPECT_EQ(SampleOne(logits, {.top_p = 0.5f, .uniform = 0.999}), 1);
  EXPECT_EQ(SampleOne(logits, {.top_p = 0.6f, .uniform = 0.999}), 3);
  // Then the first of the equals.
  EXPECT_EQ(SampleOne(logits, {.top_p = 0.8f, .uniform = 0.0}), 0);
  EXPECT_EQ(SampleOne(logits, {.top_p = 0.8f, .uniform = 0.999}), 3);
}

TEST(CudaSampleRules, TokensOfMinusInfinityAreNeverDrawn) {
  for (const double uniform : {0.0, 0.3, 0.9999999}) {
    EXPECT_EQ(SampleOne({-kInfinity, 1.0f, -kInfinity}, {.uniform = uniform}),
              1);
  }
}

// More rows than the grid has blocks.
TEST(CudaSampleRules, BlocksTakeManyRows) {
  const int64_t rows = 2048 + 2;
  const std::vector<float> logits = RandomStored<float>(rows * 5, 1);
  std::vector<Settings> settings(rows, {.temperature = 0.0f});
  for (const int64_t r : {0, 1, 2048, 2049}) {  // two blocks
    settings[r] = {.top_k = 3, .top_p = 0.8f, .uniform = 0.6};
  }
  const DeviceArray<int32_t> tokens =
      SampleRows(DeviceMatrix<float>(rows, {5, 5}, logits), settings);
  const Doubles doubles = ToDoubles(logits);
  std::vector<int32_t> expected;
  for (int64_t r = 0; r < rows; ++r) {
    expected.push_back(Draw(&doubles[r * 5], 5, settings[r]));
  }
  emulation::ExpectEqual(tokens, expected);
}

TYPED_TEST(CudaSample, ArgmaxIsTheFirstOfTheLargest) {
  using S = TypeParam;
  for (const Width& width : kWidths) {
    const int64_t rows = 3, cols = width.cols;
    std::vector<S> m = RandomStored<S>(rows * cols, 5, 2.0f);
    for (S& value : m) {  // few different values, 0 and -0 among them
      const float x = ToFloat(value);
      value = FromFloat<S>(x < 1.0f ? -0.0f * x : 2.0f);
    }
    m[2 * cols + cols / 2] =
        FromFloat<S>(std::numeric_limits<float>::quiet_NaN());
    const DeviceMatrix<S> device(rows, width, m);
    const DeviceArray<int32_t> indices(rows);
    ASSERT_EQ(ArgmaxRows(device.constant(), indices.data(), nullptr),
              cudaSuccess);
    std::vector<int32_t> expected;
    for (int64_t r = 0; r < 2; ++r) {
      const Doubles row =
          ToDoubles(std::vector<S>(&m[r * cols], &m[r * cols] + cols));
      expected.push_back(static_cast<int32_t>(
          std::max_element(row.begin(), row.end()) - row.begin()));
    }
    expected.push_back(static_cast<int32_t>(cols / 2));
    emulation::ExpectEqual(indices, expected);
  }
}

}  // namespace
}  // namespace recurve::cuda
