#include "client/cli/session.h"

#include "gtest/gtest.h"

namespace recurve::cli {
namespace {

TEST(SessionTest, NamesMayBeShort) {
  EXPECT_EQ(ResourceName("models", "lm"), "models/lm");
  EXPECT_EQ(ResourceName("models", "lm/versions/2"), "models/lm/versions/2");
  EXPECT_EQ(ResourceName("models", "models/lm"), "models/lm");
}

TEST(SessionTest, JsonHasNumbersAsNumbers) {
  v1::StepResponse response;
  response.set_step(int64_t{1} << 53);
  response.set_loss(0.5);
  response.add_devices()->set_rows(7);
  const nlohmann::json object = ToJson(response);
  EXPECT_EQ(object["step"].get<int64_t>(), int64_t{1} << 53);
  EXPECT_TRUE(object["step"].is_number());
  EXPECT_EQ(object["loss"].get<double>(), 0.5);
  EXPECT_TRUE(object["devices"][0]["rows"].is_number());
  EXPECT_EQ(object["updated"], false);  // defaults are there
}

TEST(SessionTest, JsonKeepsTimesAsText) {
  v1::Job job;
  job.mutable_create_time()->set_seconds(1);
  EXPECT_EQ(ToJson(job)["create_time"], "1970-01-01T00:00:01Z");
}

}  // namespace
}  // namespace recurve::cli
