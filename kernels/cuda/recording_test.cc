#include "kernels/cuda/recording.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/status.h"

namespace recurve::cuda {
namespace {

using emulation::DeviceArray;

// Operations that move each element of an array on by one place.
class RecordingTest : public ::testing::Test {
 protected:
  RecordingTest() : from_({1, 2, 3, 4}), to_({0, 0, 0, 0}) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
              cudaSuccess);
    recorder_ = std::make_unique<Recorder>(stream_);
  }
  ~RecordingTest() override {
    recording_ = nullptr;
    cudaStreamDestroy(stream_);
    emulation::Reset();
  }

  absl::Status Operations() {
    ++calls_;
    capturing_ = recorder_->capturing();
    return ToStatus(cudaMemcpyAsync(to_.data(), from_.data(), 16,
                                    cudaMemcpyDeviceToDevice, stream_),
                    "copy");
  }
  absl::Status Replay() {
    return recorder_->Replay(recording_, [&] { return Operations(); });
  }
  // The result of a replay after `values` have come to be the input.
  std::vector<int> ReplayWith(const std::vector<int>& values) {
    from_.Upload(values);
    to_.Upload({0, 0, 0, 0});
    EXPECT_TRUE(Replay().ok());
    return to_.Download();
  }

  DeviceArray<int> from_, to_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Recording> recording_;
  int calls_ = 0;
  bool capturing_ = false;
};

TEST_F(RecordingTest, FirstCallIsDoneSecondIsCapturedTheRestAreLaunched) {
  EXPECT_EQ(ReplayWith({1, 2, 3, 4}), std::vector<int>({1, 2, 3, 4}));
  EXPECT_FALSE(capturing_);
  EXPECT_EQ(ReplayWith({5, 6, 7, 8}), std::vector<int>({5, 6, 7, 8}));
  EXPECT_TRUE(capturing_);
  EXPECT_EQ(ReplayWith({9, 1, 2, 3}), std::vector<int>({9, 1, 2, 3}));
  EXPECT_EQ(ReplayWith({4, 4, 4, 4}), std::vector<int>({4, 4, 4, 4}));
  EXPECT_EQ(calls_, 2);
}

TEST_F(RecordingTest, WhatCudaRefusesToCaptureIsDoneEachTime) {
  for (int refused : {0, 3}) {  // begin, instantiate
    SCOPED_TRACE(refused);
    recording_ = nullptr;
    calls_ = 0;
    ASSERT_TRUE(Replay().ok());
    from_.Upload({2, 4, 6, 8});
    to_.Upload({0, 0, 0, 0});
    emulation::FailCall(refused, cudaErrorNotSupported);
    ASSERT_TRUE(Replay().ok());
    EXPECT_FALSE(emulation::FailureIsPending());
    EXPECT_EQ(to_.Download(), std::vector<int>({2, 4, 6, 8}));
    EXPECT_EQ(ReplayWith({3, 5, 7, 9}), std::vector<int>({3, 5, 7, 9}));
    emulation::Reset();
  }
}

TEST_F(RecordingTest, AStreamThatGoesOnCapturingIsAnError) {
  ASSERT_TRUE(Replay().ok());
  emulation::FailCall(2, cudaErrorUnknown);  // cudaStreamEndCapture
  EXPECT_EQ(Replay().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(calls_, 2);
}

TEST_F(RecordingTest, OperationsThatMustNotBeRecordedAreRefused) {
  const auto operations = [&]() -> absl::Status {
    return recorder_->capturing() ? absl::FailedPreconditionError("Upload")
                                  : absl::OkStatus();
  };
  ASSERT_TRUE(recorder_->Replay(recording_, operations).ok());
  const absl::Status status = recorder_->Replay(recording_, operations);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(recorder_->capturing());
  EXPECT_EQ(ReplayWith({1, 2, 3, 4}), std::vector<int>({1, 2, 3, 4}));
}

TEST_F(RecordingTest, AFailureOfTheOperationsIsTheirs) {
  const absl::Status status = recorder_->Replay(
      recording_, [] { return absl::InvalidArgumentError("shape"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(recording_, nullptr);
}

}  // namespace
}  // namespace recurve::cuda
