#include "kernels/cuda/staging.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/device_array.h"

namespace recurve::cuda {
namespace {

using emulation::DeviceArray;

std::vector<uint32_t> Numbers(int64_t count, uint32_t first) {
  std::vector<uint32_t> values(count);
  for (uint32_t& value : values) value = first++;
  return values;
}

// Queued copies run only when somebody waits for them: memory that is written
// again too early would show.
class StagingTest : public ::testing::Test {
 protected:
  StagingTest() {
    emulation::SetStreamMode(emulation::StreamMode::kLazy);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
              cudaSuccess);
    auto staging = Staging::Create(stream_);
    EXPECT_TRUE(staging.ok()) << staging.status();
    staging_ = *std::move(staging);
  }
  ~StagingTest() override {
    staging_ = nullptr;
    cudaStreamDestroy(stream_);
    emulation::Reset();
  }

  void RoundTrip(int64_t count) {
    DeviceArray<uint32_t> device(count);
    std::vector<uint32_t> host = Numbers(count, 7), back(count);
    const int64_t bytes = count * sizeof(uint32_t);
    ASSERT_TRUE(staging_->Upload(device.data(), host.data(), bytes).ok());
    std::memset(host.data(), 0xAB, bytes);
    ASSERT_TRUE(staging_->Download(back.data(), device.data(), bytes).ok());
    EXPECT_EQ(back, Numbers(count, 7));
  }

  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Staging> staging_;
};

TEST_F(StagingTest, HostMemoryMayBeReusedAtOnce) {
  for (int64_t count : {0, 1, 3, 17, 1000}) RoundTrip(count);
}

TEST_F(StagingTest, LargeTransfersGoInPieces) {
  const int64_t piece = PinnedSlot::kBytes / sizeof(uint32_t);
  for (int64_t count :
       {piece - 1, piece, piece + 1, 2 * piece, 11 * piece + 5}) {
    RoundTrip(count);
  }
}

TEST_F(StagingTest, ManySmallUploadsShareTheRing) {
  constexpr int64_t kCount = 5000;  // of them, more than the ring holds
  const int64_t uploads = 6 * PinnedSlot::kBytes / (kCount * sizeof(uint32_t));
  DeviceArray<uint32_t> device(uploads * kCount);
  for (int64_t i = 0; i < uploads; ++i) {
    const std::vector<uint32_t> host = Numbers(kCount, i * kCount);
    ASSERT_TRUE(staging_
                    ->Upload(device.data() + i * kCount, host.data(),
                             kCount * sizeof(uint32_t))
                    .ok());
  }
  EXPECT_EQ(device.Download(), Numbers(uploads * kCount, 0));
}

TEST_F(StagingTest, FailuresComeBack) {
  DeviceArray<uint32_t> device(100);
  std::vector<uint32_t> host(100);
  emulation::FailCall(0, cudaErrorECCUncorrectable);
  const absl::Status status = staging_->Upload(device.data(), host.data(), 400);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(status.message().find("cudaErrorECCUncorrectable"),
            absl::string_view::npos)
      << status;
}

}  // namespace
}  // namespace recurve::cuda
