#include "server/request_strings.h"

#include <string>

#include "gtest/gtest.h"
#include "proto/recurve/v1/compute.pb.h"
#include "proto/recurve/v1/jobs.pb.h"

namespace recurve::server {
namespace {

TEST(RequestStringsTest, NamesTheStringThatIsTooLong) {
  v1::TrainRequest request;
  request.set_request_id(std::string(kMaxStringBytes, 'r'));
  EXPECT_TRUE(CheckStrings(request).ok());
  request.set_owner(std::string(300, 'o'));
  const absl::Status status = CheckStrings(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "owner: has 300 bytes, the limit is 256");
}

TEST(RequestStringsTest, LeavesBytesAndListsAlone) {
  v1::PredictRequest predict;
  predict.set_state(std::string(1000, 's'));
  EXPECT_TRUE(CheckStrings(predict).ok());
  v1::CreateTrainerRequest create;
  create.add_vocabulary(std::string(1000, 'v'));
  EXPECT_TRUE(CheckStrings(create).ok());
}

}  // namespace
}  // namespace recurve::server
