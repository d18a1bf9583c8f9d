#include "engine/serve/retry_hint.h"

#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(RetryHintTest, TravelsWithTheStatusAndItsCopies) {
  absl::Status status = absl::ResourceExhaustedError("full");
  EXPECT_FALSE(RetryHint(status).has_value());
  SetRetryHint(status, absl::Milliseconds(1500));
  const absl::Status copy = status;
  EXPECT_EQ(RetryHint(copy), absl::Milliseconds(1500));
  EXPECT_EQ(copy.message(), "full");
  SetRetryHint(status, absl::Nanoseconds(1));
  EXPECT_EQ(RetryHint(status), absl::Nanoseconds(1));
  EXPECT_EQ(RetryHint(copy), absl::Milliseconds(1500));
}

TEST(RetryHintTest, AnOkStatusHasNone) {
  EXPECT_FALSE(RetryHint(absl::OkStatus()).has_value());
}

}  // namespace
}  // namespace recurve
