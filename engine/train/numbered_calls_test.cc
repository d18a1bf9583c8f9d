#include "engine/train/numbered_calls.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using absl::StatusCode;

NumberedReply Reply(int64_t number) {
  NumberedReply reply;
  reply.number = number;
  reply.request_sha256 = absl::StrCat("request ", number);
  reply.result.step = 100 + number;
  return reply;
}

NumberedCalls CallsUpTo(int64_t last) {
  NumberedCalls calls;
  for (int64_t n = 1; n <= last; ++n) calls.Add(Reply(n));
  return calls;
}

TEST(NumberedCallsTest, EveryNumberIsTheNextADoneOneOrRefused) {
  for (int64_t last = 0; last <= 40; ++last) {
    const NumberedCalls calls = CallsUpTo(last);
    ASSERT_EQ(calls.last_number(), last);
    for (int64_t n = -1; n <= 45; ++n) {
      const auto found = calls.Find(n, absl::StrCat("request ", n), 7);
      if (n < 1) {
        EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
      } else if (n == last + 1) {
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_EQ(*found, nullptr);
      } else if (n > last || n <= last - 16) {
        EXPECT_EQ(found.status().code(), StatusCode::kFailedPrecondition);
        const std::string advice =
            absl::StrCat("at step 7: go on from number ", last + 1);
        EXPECT_NE(found.status().message().find(advice), std::string::npos)
            << found.status();
      } else {
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_EQ((*found)->step, 100 + n);
      }
    }
  }
}

TEST(NumberedCallsTest, AnotherRequestOfTheSameNumberIsRefused) {
  const NumberedCalls calls = CallsUpTo(3);
  const auto found = calls.Find(2, "request 3", 0);
  EXPECT_EQ(found.status().code(), StatusCode::kInvalidArgument);
}

TEST(NumberedCallsTest, KeepsTheLastSixteen) {
  EXPECT_EQ(CallsUpTo(16).replies().front().number, 1);
  EXPECT_EQ(CallsUpTo(17).replies().front().number, 2);
  EXPECT_EQ(CallsUpTo(17).replies().size(), 16u);
}

}  // namespace
}  // namespace recurve
