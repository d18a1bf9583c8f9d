#include "engine/schedule/serving_precision.h"

#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(ServingPrecisionTest, NamesAreReadAsTheyAreWritten) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    EXPECT_EQ(*ParsePrecision(NameOf(precision)), precision);
  }
  const absl::Status wrong = ParsePrecision("fp16").status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(wrong.message(), "is `fp16`, must be fp32, bf16 or int8");
}

TEST(ServingPrecisionTest, OneDeviceThatCanIsEnough) {
  const auto gpu = *ParseDevices("cuda:0");
  const auto both = *ParseDevices("cuda:0,cpu:1");
  EXPECT_TRUE(CheckServes(gpu, Precision::kFloat32).ok());
  EXPECT_TRUE(CheckServes(both, Precision::kInt8).ok());
  EXPECT_FALSE(Serves(both[0], Precision::kInt8));
  EXPECT_TRUE(Serves(both[1], Precision::kInt8));
  for (const Precision precision : {Precision::kBfloat16, Precision::kInt8}) {
    const absl::Status refused = CheckServes(gpu, precision);
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(refused.message().find("serve at fp32"), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace recurve
