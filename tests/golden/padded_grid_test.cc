#include "tests/golden/padded_grid.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve::golden {
namespace {

using testing::ElementsAre;

TEST(PaddedGrid, DropsMaskedSteps) {
  // Three steps of two sequences; the second one's step 1 is masked.
  const PaddedGrid grid(3, 2, {0, 0, 0, 1, 0, 0});
  EXPECT_THAT(grid.cu_seqlens(), ElementsAre(0, 3, 5));
  const std::vector<float> padded = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(grid.Pack(padded, 1), ElementsAre(1, 3, 5, 2, 6));
  EXPECT_THAT(grid.Scatter({1, 3, 5, 2, 6}, 1, {}),
              ElementsAre(1, 2, 3, 0, 5, 6));
  EXPECT_THAT(grid.Scatter({1, 3, 5, 2, 6}, 1, {9}),
              ElementsAre(1, 2, 3, 9, 5, 6));
  EXPECT_THAT(grid.SumOfPadding(padded, 1), ElementsAre(4));
}

TEST(PaddedGrid, WithoutMaskAndWithNothingElse) {
  EXPECT_THAT(PaddedGrid(2, 2, {}).cu_seqlens(), ElementsAre(0, 2, 4));
  const PaddedGrid nothing(2, 1, {1, 2});
  EXPECT_THAT(nothing.cu_seqlens(), ElementsAre(0, 0));
  EXPECT_THAT(nothing.Scatter({}, 2, {7, 8}), ElementsAre(7, 8, 7, 8));
  EXPECT_THAT(nothing.SumOfPadding({1, 2, 3, 4}, 2), ElementsAre(4, 6));
}

}  // namespace
}  // namespace recurve::golden
