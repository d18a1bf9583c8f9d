#include "kernels/cpu/copy_rows.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cell_args.h"
#include "kernels/cpu/test_util.h"

namespace recurve::cpu {
namespace {

TEST(CopyRows, PutsEachRowInItsPlaceAndTouchesNoOther) {
  const std::vector<float> from = {1, 2, 3, 4, 5, 6};
  std::vector<float> to(8, 9.0f);
  const std::vector<int32_t> from_rows = {2, 0, 2}, to_rows = {1, 3, 0};
  ASSERT_TRUE(CopyRows({{from.data(), 3, 2},
                        from_rows.data(),
                        {to.data(), 4, 2},
                        to_rows.data(),
                        3})
                  .ok());
  EXPECT_EQ(to, std::vector<float>({5, 6, 5, 6, 9, 9, 1, 2}));
}

TEST(CopyRows, LeavesWhatLiesBetweenRows) {
  const std::vector<float> from = {1, 2, 7, 3, 4, 7};
  std::vector<float> to(8, 9.0f);
  const std::vector<int32_t> rows = {1, 0};
  ASSERT_TRUE(CopyRows({{from.data(), 2, 2, 3},
                        rows.data(),
                        {to.data(), 2, 2, 4},
                        rows.data(),
                        2})
                  .ok());
  EXPECT_EQ(to, std::vector<float>({1, 2, 9, 9, 3, 4, 9, 9}));
}

// Words that are halves of doubles may look like any NaN.
TEST(CopyRows, KeepsAllBits) {
  std::vector<uint32_t> from = {0x7f800001u, 0xff812345u, 0x80000000u,
                                0x00000001u, 0xffffffffu, 0x7fa00000u};
  std::vector<uint32_t> to(from.size());
  const int32_t row = 0;
  ASSERT_TRUE(CopyRows({{reinterpret_cast<float*>(from.data()), 1, 6},
                        &row,
                        {reinterpret_cast<float*>(to.data()), 1, 6},
                        &row,
                        1})
                  .ok());
  EXPECT_EQ(to, from);
}

TEST(CopyRows, IsTheSameForAnyThreads) {
  const int64_t rows = 300, cols = 130;
  const std::vector<float> from = RandomFloats(rows * cols, 1);
  std::vector<int32_t> from_rows, to_rows;
  for (int32_t i = 0; i < rows; ++i) {
    from_rows.push_back(i * 7 % rows);
    to_rows.push_back(rows - 1 - i);
  }
  ExpectSameForAnyThreads([&] {
    std::vector<float> to(rows * cols);
    EXPECT_TRUE(CopyRows({{from.data(), rows, cols},
                          from_rows.data(),
                          {to.data(), rows, cols},
                          to_rows.data(),
                          rows})
                    .ok());
    EXPECT_EQ(std::memcmp(to.data(), &from[(rows - 1) * 7 % rows * cols],
                          cols * sizeof(float)),
              0);
    return to;
  });
}

TEST(CopyRows, RefusesContradictions) {
  float from[4] = {}, to[4] = {};
  const int32_t row = 0;
  EXPECT_EQ(CopyRows({{from, 2, 2}, &row, {to, 4, 1}, &row, 1}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(CopyRows({}).ok());  // nothing to copy
}

}  // namespace
}  // namespace recurve::cpu
