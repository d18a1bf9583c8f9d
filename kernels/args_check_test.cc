#include "kernels/args_check.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using testing::HasSubstr;

// Nothing is read of what pointers point to.
template <typename T>
T* Somewhere() {
  return reinterpret_cast<T*>(64);
}

void ExpectRefused(const absl::Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << words;
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

// --- Pooling in parts ---

PoolArgs<float> GoodParts(PoolKind kind) {
  PoolArgs<float> args;
  args.kind = kind;
  args.layout = {2, 5, Somewhere<int64_t>()};
  args.x = {Somewhere<float>(), 5, 4};
  args.y = {Somewhere<float>(), 2, 4};
  args.carry.rows = {Somewhere<int64_t>(), 2, 1, 9};
  if (kind == PoolKind::kMean) {
    args.carry.sums = {Somewhere<double>(), 2, 4, 9};
  } else {
    args.carry.maxima = {Somewhere<float>(), 2, 4, 18};
  }
  return args;
}

template <typename Change>
absl::Status AfterChange(PoolKind kind, const Change& change) {
  PoolArgs<float> args = GoodParts(kind);
  change(args);
  return CheckPoolForward(args);
}

TEST(CheckPoolForward, TakesTheCarryOfItsKind) {
  for (const PoolKind kind : {PoolKind::kMean, PoolKind::kMax}) {
    EXPECT_TRUE(CheckPoolForward(GoodParts(kind)).ok());
  }
}

TEST(CheckPoolForward, RefusesACarryOfAnotherShape) {
  constexpr PoolKind kMean = PoolKind::kMean, kMax = PoolKind::kMax;
  ExpectRefused(AfterChange(kMean, [](auto& a) { a.carry.rows.rows = 1; }),
                "carry.rows is 1 x 1, stride 9; expected 2 x 1");
  ExpectRefused(AfterChange(kMean, [](auto& a) { a.carry.sums.cols = 3; }),
                "carry.sums is 2 x 3, stride 9; expected 2 x 4");
  ExpectRefused(AfterChange(kMax, [](auto& a) { a.carry.maxima.stride = 3; }),
                "carry.maxima is 2 x 4, stride 3; expected 2 x 4");
  ExpectRefused(AfterChange(kMean, [](auto& a) { a.carry.sums = {}; }),
                "carry.sums is missing");
  ExpectRefused(AfterChange(kMax, [](auto& a) { a.carry.maxima = {}; }),
                "carry.maxima is missing");
}

TEST(CheckPoolForward, RefusesACarryWhereNothingGoesOn) {
  ExpectRefused(
      AfterChange(PoolKind::kMax, [](auto& a) { a.kind = PoolKind::kLast; }),
      "kMean or kMax");
  ExpectRefused(AfterChange(PoolKind::kMax,
                            [](auto& a) {
                              a.argmax = {Somewhere<int32_t>(), 2, 4};
                            }),
                "without argmax");
}

// --- Copies of rows ---

CopyRowsArgs GoodCopy() {
  return {{Somewhere<float>(), 9, 4, 6},
          Somewhere<int32_t>(),
          {Somewhere<float>(), 2, 4},
          Somewhere<int32_t>(),
          3};
}

template <typename Change>
absl::Status AfterChange(const Change& change) {
  CopyRowsArgs args = GoodCopy();
  change(args);
  return CheckCopyRows(args);
}

TEST(CheckCopyRows, TakesAnyNumbersOfRows) {
  EXPECT_TRUE(CheckCopyRows(GoodCopy()).ok());
}

TEST(CheckCopyRows, NothingIsMissingWhereNothingIsCopied) {
  EXPECT_TRUE(CheckCopyRows({}).ok());
}

TEST(CheckCopyRows, RefusesContradictions) {
  ExpectRefused(AfterChange([](auto& a) { a.to.cols = 3; }),
                "from is 9 x 4, stride 6; expected 9 x 3");
  ExpectRefused(AfterChange([](auto& a) { a.to.stride = 3; }),
                "to is 2 x 4, stride 3");
  ExpectRefused(AfterChange([](auto& a) { a.from.data = nullptr; }),
                "from is missing");
  ExpectRefused(AfterChange([](auto& a) { a.to.data = nullptr; }),
                "to is missing");
  ExpectRefused(AfterChange([](auto& a) { a.from_rows = nullptr; }),
                "from_rows is missing");
  ExpectRefused(AfterChange([](auto& a) { a.to_rows = nullptr; }),
                "to_rows is missing");
  ExpectRefused(AfterChange([](auto& a) { a.count = -1; }), "count >= 0");
}

}  // namespace
}  // namespace recurve
