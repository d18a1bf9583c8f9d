#include "server/status.h"

#include <string>

#include "engine/serve/retry_hint.h"
#include "gtest/gtest.h"
#include "proto/google/rpc/status.pb.h"

namespace recurve::server {
namespace {

TEST(StatusTest, KeepsTheCode) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "why");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(ToGrpc(status).error_message(), code == 0 ? "" : "why");
  }
}

TEST(StatusTest, CutsLongMessagesBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\xc3\xa4";
  const std::string message = ToGrpc(absl::InternalError(text)).error_message();
  EXPECT_EQ(message.size(), 2048u + 3);
  EXPECT_EQ(message.substr(2044), "\xc3\xa4\xc3\xa4...");
}

TEST(StatusTest, FieldsOfBadRequestsAreInTheDetails) {
  google::rpc::Status details;
  ASSERT_TRUE(details.ParseFromString(
      ToGrpc(absl::InvalidArgumentError("blocks[0].sru.hidden_size: 0 is bad"))
          .error_details()));
  EXPECT_EQ(details.code(), 3);
  google::rpc::BadRequest request;
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&request));
  EXPECT_EQ(request.field_violations(0).field(), "blocks[0].sru.hidden_size");
  EXPECT_EQ(request.field_violations(0).description(), "0 is bad");
  for (const char* message : {"no field", "two words: x", "", ": x"}) {
    EXPECT_EQ(ToGrpc(absl::InvalidArgumentError(message)).error_details(), "");
  }
  EXPECT_EQ(ToGrpc(absl::NotFoundError("name: x")).error_details(), "");
}

TEST(StatusTest, ARetryHintIsInTheDetails) {
  for (const size_t length : {10, 5000}) {
    absl::Status status =
        absl::ResourceExhaustedError(std::string(length, 'x'));
    EXPECT_EQ(ToGrpc(status).error_details(), "");
    SetRetryHint(status, absl::Milliseconds(2500));
    google::rpc::Status details;
    ASSERT_TRUE(details.ParseFromString(ToGrpc(status).error_details()));
    EXPECT_EQ(details.code(), 8);
    google::rpc::RetryInfo info;
    ASSERT_EQ(details.details_size(), 1);
    ASSERT_TRUE(details.details(0).UnpackTo(&info));
    EXPECT_EQ(info.retry_delay().seconds(), 2);
    EXPECT_EQ(info.retry_delay().nanos(), 500'000'000);
  }
}

TEST(StatusTest, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(ToGrpc(absl::InternalError("a\xff\xc3z\xc3")).error_message(),
            "a??z?");
}

}  // namespace
}  // namespace recurve::server
