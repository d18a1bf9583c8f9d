#include "engine/base/finite.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FirstNotFiniteTest, EveryPlaceIsLookedAt) {
  for (const size_t size : {1, 7, 64, 4095, 4096, 4097, 9001}) {
    std::vector<float> numbers(size, 1.0f);
    EXPECT_TRUE(AllFinite(numbers));
    for (size_t i = 0; i < size; i += size < 100 ? 1 : 97) {
      for (const float bad : {kNaN, -kNaN, kInfinity, -kInfinity}) {
        numbers[i] = bad;
        EXPECT_EQ(FirstNotFinite(numbers), i) << size;
      }
      numbers[i] = 1.0f;
    }
    numbers[size - 1] = kNaN;
    EXPECT_EQ(FirstNotFinite(numbers), size - 1);
  }
}

TEST(FirstNotFiniteTest, TheFirstOfSeveral) {
  std::vector<float> numbers(10'000, 0.0f);
  numbers[5000] = kInfinity;
  numbers[5001] = kNaN;
  numbers[9999] = kNaN;
  EXPECT_EQ(FirstNotFinite(numbers), 5000);
}

TEST(FirstNotFiniteTest, ExtremesAreFinite) {
  using Limits = std::numeric_limits<float>;
  EXPECT_TRUE(AllFinite({}));
  EXPECT_TRUE(AllFinite({0.0f, -0.0f, Limits::max(), Limits::lowest(),
                         Limits::min(), Limits::denorm_min()}));
}

}  // namespace
}  // namespace recurve
