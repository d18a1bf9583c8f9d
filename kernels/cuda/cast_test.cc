#include "kernels/cuda/cast.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

template <typename S>
class CudaCast : public ::testing::Test {};
using SixteenBits = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(CudaCast, SixteenBits);

using Offsets = std::pair<int64_t, int64_t>;

TYPED_TEST(CudaCast, ThereAndBack) {
  using S = TypeParam;
  for (const int64_t count : {0, 1, 7, 8, 2600}) {
    // Of the floats and of what is stored: aligned, or one or both not.
    for (const auto& [offset, at] : {Offsets{0, 0}, {1, 1}, {1, 0}, {0, 1}}) {
      const auto values = RandomStored<float>(count + offset, 1, 100.0f);
      const DeviceArray<float> floats(values), back(count + offset);
      const DeviceArray<S> stored(count + at);
      ASSERT_EQ(
          Cast(floats.data() + offset, stored.data() + at, count, nullptr),
          cudaSuccess);
      const std::vector<S> rounded = stored.Download();
      ASSERT_EQ(Cast(static_cast<const S*>(stored.data()) + at,
                     back.data() + offset, count, nullptr),
                cudaSuccess);
      emulation::MarkCompared();
      const std::vector<float> result = back.Download();
      for (int64_t i = offset; i < count + offset; ++i) {
        ASSERT_EQ(emulation::ToDouble(rounded[i - offset + at]), result[i]);
        ASSERT_NEAR(result[i], values[i],
                    std::abs(values[i]) * kUnitRoundoff<S>);
      }
      EXPECT_EQ(back.CountUntouched(), offset);
      EXPECT_EQ(stored.CountUntouched(), at);
    }
  }
}

}  // namespace
}  // namespace recurve::cuda
