#include "engine/data/shuffle.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(Shuffle, IsAPermutation) {
  for (int64_t count : {0, 1, 2, 3, 10, 1000, 70'001}) {
    std::vector<int64_t> order = Permutation(count, 7, 3);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(static_cast<int64_t>(order.size()), count);
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(order[i], i);
  }
}

TEST(Shuffle, DependsOnSeedAndEpochAlone) {
  const std::vector<int64_t> order = Permutation(1000, 1, 0);
  EXPECT_EQ(Permutation(1000, 1, 0), order);
  EXPECT_NE(Permutation(1000, 1, 1), order);
  EXPECT_NE(Permutation(1000, 2, 0), order);
  EXPECT_NE(Permutation(1000, uint64_t{1} << 32 | 1, 0), order);
}

// 24 permutations of 4, 24,000 epochs: 1000 of each expected, deviation 31.
TEST(Shuffle, EveryPermutationIsEquallyLikely) {
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 24'000; ++epoch) {
    ++counts[Permutation(4, 5, epoch)];
  }
  ASSERT_EQ(counts.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) {
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  // 23 degrees of freedom: mean 23, deviation 6.8.
  EXPECT_LT(chi_squared, 23 + 5 * 6.8);
}

// The value is of an independent implementation. A resumed run must see what
// the first one saw, whatever version it is.
TEST(Shuffle, NeverChanges) {
  EXPECT_EQ(Permutation(8, 42, 1),
            (std::vector<int64_t>{4, 7, 0, 3, 6, 2, 1, 5}));
}

}  // namespace
}  // namespace recurve
