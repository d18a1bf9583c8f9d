#include "server/protobuf_log.h"

#include <string>

#include "google/protobuf/wrappers.pb.h"
#include "gtest/gtest.h"

namespace recurve::server {
namespace {

TEST(LogLimitTest, OneLineAMinuteThatCountsTheOthers) {
  LogLimit limit;
  const absl::Time start = absl::FromUnixSeconds(1000);
  EXPECT_EQ(limit.Admit("a\n", start), "a\n");
  EXPECT_EQ(limit.Admit("b\n", start), "");
  EXPECT_EQ(limit.Admit("c\n", start + absl::Seconds(59)), "");
  const std::string next = limit.Admit("d\n", start + absl::Seconds(60));
  EXPECT_EQ(next, "(2 lines like the next were left out)\nd\n");
  EXPECT_EQ(limit.Admit("e\n", start + absl::Seconds(61)), "");
  EXPECT_EQ(limit.Admit("f\n", start + absl::Seconds(200)),
            "(1 lines like the next were left out)\nf\n");
  EXPECT_EQ(limit.Admit("g\n", start + absl::Seconds(300)), "g\n");
}

TEST(ProtobufLogTest, StringsThatAreNotUtf8DoNotFillTheLog) {
  LimitProtobufLog();
  testing::internal::CaptureStderr();
  google::protobuf::StringValue value;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(value.ParseFromString("\x0a\x01\xff"));
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("UTF-8"), std::string::npos) << log;
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
}

}  // namespace
}  // namespace recurve::server
