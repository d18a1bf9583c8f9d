#include "kernels/cuda/storage.cuh"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace recurve::cuda {
namespace {

// A 16-bit float by its definition, in double.
double Value(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const double mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double significand = std::ldexp(mantissa, -mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(significand, 1 - bias)
                       : sign * std::ldexp(1 + significand, exponent - bias);
}

template <typename S>
constexpr int kExponentBits = 8;
template <>
constexpr int kExponentBits<Float16> = 5;

template <typename S>
class StorageTest : public ::testing::Test {};
using SixteenBits = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(StorageTest, SixteenBits);

TYPED_TEST(StorageTest, EveryValueComesBackAsItIs) {
  for (int bits = 0; bits < 0x10000; ++bits) {
    const TypeParam x{static_cast<uint16_t>(bits)};
    const double value = Value(x.bits, kExponentBits<TypeParam>);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(ToFloat(x))) << bits;
      EXPECT_TRUE(std::isnan(ToFloat(FromFloat<TypeParam>(ToFloat(x)))));
    } else {
      ASSERT_EQ(ToFloat(x), value) << bits;
      ASSERT_EQ(FromFloat<TypeParam>(ToFloat(x)).bits, x.bits) << bits;
    }
  }
}

// Between each value and the next: what is nearer, and the even one from the
// middle.
TYPED_TEST(StorageTest, RoundsToTheNearestEven) {
  const uint16_t infinity = static_cast<uint16_t>(
      ((1 << kExponentBits<TypeParam>)-1) << (15 - kExponentBits<TypeParam>));
  for (uint16_t sign : {0, 0x8000}) {
    for (uint16_t bits = 0; bits + 1 < infinity; ++bits) {
      const float low = ToFloat(TypeParam{bits});
      const float high = ToFloat(TypeParam{static_cast<uint16_t>(bits + 1)});
      const float middle = static_cast<float>((double{low} + high) / 2);
      const auto round = [&](float x) {
        return FromFloat<TypeParam>(sign ? -x : x).bits & 0x7fff;
      };
      ASSERT_EQ(round(std::nextafterf(middle, low)), bits);
      ASSERT_EQ(round(std::nextafterf(middle, high)), bits + 1);
      ASSERT_EQ(round(middle), bits + (bits & 1));
    }
  }
}

TYPED_TEST(StorageTest, WhatIsTooLargeBecomesInfinity) {
  EXPECT_TRUE(std::isinf(ToFloat(FromFloat<TypeParam>(3.4e38f * 2))));
  EXPECT_TRUE(std::isinf(
      ToFloat(FromFloat<TypeParam>(std::numeric_limits<float>::max()))));
}

template <typename S, int kVec>
void ExpectPackKeepsElements() {
  alignas(16) S from[kVec];
  alignas(16) S to[kVec];
  for (int i = 0; i < kVec; ++i) from[i] = FromFloat<S>(1.5f * i - 3);
  const auto loaded = Pack<S, kVec>::Load(from);
  Pack<S, kVec> changed;
  for (int i = 0; i < kVec; ++i) {
    EXPECT_EQ(loaded.Get(i), 1.5f * i - 3);
    changed.Set(i, -2 * loaded.Get(i));
    EXPECT_EQ((Pack<S, kVec>::Zeros().Get(i)), 0.0f);
  }
  changed.Store(to);
  for (int i = 0; i < kVec; ++i) EXPECT_EQ(ToFloat(to[i]), 6 - 3.0f * i);
}

TEST(PackTest, KeepsElementsInOrder) {
  ExpectPackKeepsElements<float, 1>();
  ExpectPackKeepsElements<float, 4>();
  ExpectPackKeepsElements<float, 8>();
  ExpectPackKeepsElements<BFloat16, 1>();
  ExpectPackKeepsElements<BFloat16, 8>();
  ExpectPackKeepsElements<Float16, 1>();
  ExpectPackKeepsElements<Float16, 8>();
}

}  // namespace
}  // namespace recurve::cuda
