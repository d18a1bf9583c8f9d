#include "kernels/cuda/devices.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulation/control.h"

namespace recurve::cuda {
namespace {

class DevicesTest : public ::testing::Test {
 protected:
  ~DevicesTest() override {
    emulation::Reset();
    cudaSetDevice(0);  // asking a device makes it current
  }
};

TEST_F(DevicesTest, SaysWhatTheyAre) {
  emulation::SetDeviceCount(3);
  emulation::SetComputeCapability(90);
  EXPECT_EQ(*DeviceCount(), 3);
  const auto info = GetDeviceInfo(2);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(info->name.empty());
  EXPECT_EQ(info->capability_major, 9);
  EXPECT_EQ(info->capability_minor, 0);
  EXPECT_GT(info->total_bytes, 0);
  EXPECT_LE(info->free_bytes, info->total_bytes);
}

TEST_F(DevicesTest, NoDeviceOrAnOldDriverIsUnavailable) {
  emulation::SetDeviceCount(0);
  EXPECT_EQ(DeviceCount().status().code(), absl::StatusCode::kUnavailable);
  emulation::SetDeviceCount(1);
  emulation::FailCall(0, cudaErrorInsufficientDriver);
  const absl::Status status = DeviceCount().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StartsWith(status.message(), "no CUDA device: ")) << status;
}

TEST_F(DevicesTest, AnOrdinalThatIsNotThereIsUnavailable) {
  emulation::SetDeviceCount(2);
  for (int ordinal : {-1, 2}) {
    const absl::Status status = GetDeviceInfo(ordinal).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.message(), "has 2")) << status;
  }
}

}  // namespace
}  // namespace recurve::cuda
