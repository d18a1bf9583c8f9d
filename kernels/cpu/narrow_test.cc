#include "kernels/cpu/narrow.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/test_util.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// bf16 of one row.
std::vector<uint16_t> Rounded(const std::vector<float>& row) {
  const int64_t depth = row.size();
  std::vector<uint32_t> words(WordsOf(Precision::kBfloat16, depth) +
                              kRowSlackWords);
  RoundRows({row.data(), 1, depth}, words.data());
  std::vector<uint16_t> halves(depth);
  std::memcpy(halves.data(), words.data(), depth * sizeof(uint16_t));
  return halves;
}

TEST(NarrowTest, Bfloat16IsNearestAndEvenBetweenTwo) {
  ForEachInstructionSet([] {
    EXPECT_EQ(
        Rounded({0.0f, -0.0f, 1.0f, FromBits(0x3f808000), FromBits(0x3f818000),
                 FromBits(0x3f808001), FromBits(0xbf807fff), kInf, -kInf,
                 FromBits(0x7f7f7fff), FromBits(0x7f7f8000)}),
        (std::vector<uint16_t>{0x0000, 0x8000, 0x3f80, 0x3f80, 0x3f82, 0x3f81,
                               0xbf80, 0x7f80, 0xff80, 0x7f7f, 0x7f80}));
  });
}

TEST(NarrowTest, Bfloat16KeepsNanAndFlushesSubnormals) {
  ForEachInstructionSet([] {
    for (uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u}) {
      const uint16_t half = Rounded({FromBits(bits)})[0];
      EXPECT_TRUE(std::isnan(FromBits(uint32_t{half} << 16))) << bits;
    }
    EXPECT_EQ(Rounded({1e-39f, -1e-39f, FromBits(0x007fffff),
                       FromBits(0x007f0000), FromBits(0x00800000)}),
              (std::vector<uint16_t>{0x0000, 0x8000, 0x0080, 0x0000, 0x0080}));
  });
}

TEST(NarrowTest, RowsAndColumnsRoundAlike) {
  constexpr int64_t kDepth = 37, kCols = 19;
  const std::vector<float> rows = RandomFloats(kCols * kDepth, 3);
  std::vector<float> columns(kDepth * kCols);
  for (int64_t j = 0; j < kCols; ++j) {
    for (int64_t k = 0; k < kDepth; ++k) {
      columns[k * kCols + j] = rows[j * kDepth + k];
    }
  }
  const int64_t words = WordsOf(Precision::kBfloat16, kDepth);
  ForEachInstructionSet([&] {
    std::vector<uint32_t> by_row(kCols * words + kRowSlackWords);
    std::vector<uint32_t> by_column(words * kCols);
    RoundRows({rows.data(), kCols, kDepth}, by_row.data());
    RoundColumns({columns.data(), kDepth, kCols}, kCols, by_column.data());
    for (int64_t j = 0; j < kCols; ++j) {
      for (int64_t k = 0; k < words; ++k) {
        ASSERT_EQ(by_row[j * words + k], by_column[k * kCols + j]);
      }
    }
  });
}

// int8 of one row, and its scale.
std::vector<int> Quantized(const std::vector<float>& row, float* scale) {
  const int64_t depth = row.size();
  std::vector<uint32_t> words(WordsOf(Precision::kInt8, depth) +
                              kRowSlackWords);
  QuantizeRows({row.data(), 1, depth}, words.data(), scale);
  const auto* bytes = reinterpret_cast<const uint8_t*>(words.data());
  std::vector<int> values;
  for (int64_t k = 0; k < depth; ++k) values.push_back(bytes[k] - kInt8Offset);
  return values;
}

TEST(NarrowTest, Int8IsNearestAndEvenBetweenTwo) {
  ForEachInstructionSet([] {
    float scale;
    EXPECT_EQ(
        Quantized({127.0f, 0.5f, 1.5f, -0.5f, -1.5f, -126.6f, 0.0f}, &scale),
        (std::vector<int>{127, 0, 2, 0, -2, -127, 0}));
    EXPECT_EQ(scale, 1.0f);
    EXPECT_EQ(Quantized({-3e38f, 3e38f}, &scale),
              (std::vector<int>{-127, 127}));
  });
}

TEST(NarrowTest, Int8OfZerosHasScaleZero) {
  ForEachInstructionSet([] {
    float scale = 7.0f;
    EXPECT_EQ(Quantized({0.0f, -0.0f, 1e-40f}, &scale),
              (std::vector<int>{0, 0, 0}));
    EXPECT_EQ(scale, 0.0f);
  });
}

TEST(NarrowTest, Int8OfWhatIsNotFiniteHasScaleNan) {
  ForEachInstructionSet([] {
    for (float bad : {kInf, -kInf, kNan, -kNan}) {
      float scale = 7.0f;
      Quantized({1.0f, bad, 2.0f}, &scale);
      EXPECT_TRUE(std::isnan(scale)) << bad;
    }
  });
}

}  // namespace
}  // namespace recurve::cpu
