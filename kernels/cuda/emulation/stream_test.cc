
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/emulation/test_kernels.h"

namespace recurve::cuda::emulation {
namespace {

// Two streams, and an array of ones in pinned memory that is copied from and
// to.
class Streams : public testing::TestWithParam<StreamMode> {
 protected:
  static constexpr int kSize = 100;
  static constexpr size_t kBytes = kSize * sizeof(float);

  void SetUp() override {
    SetStreamMode(GetParam());
    for (cudaStream_t* stream : {&a_, &b_}) {
      ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
                cudaSuccess);
    }
    ASSERT_EQ(cudaEventCreate(&event_), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&host_, kBytes), cudaSuccess);
    for (int i = 0; i < kSize; ++i) host_[i] = 1.0f;
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(a_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(host_), cudaSuccess);
    Reset();
  }

  // y += x in the stream.
  cudaError_t Add(const DeviceArray<float>& x, const DeviceArray<float>& y,
                  cudaStream_t stream) {
    return Axpy({kSize, 1.0f, x.data(), y.data()}, stream);
  }
  DeviceArray<float> Ones() {
    return DeviceArray<float>(std::vector<float>(kSize, 1.0f));
  }

  cudaStream_t a_, b_;
  cudaEvent_t event_;
  float* host_;
};

INSTANTIATE_TEST_SUITE_P(Modes, Streams,
                         testing::Values(StreamMode::kLazy, StreamMode::kEager,
                                         StreamMode::kRandom));

TEST_P(Streams, RunInTheirOrder) {
  DeviceArray<float> x = Ones(), y(kSize);
  ASSERT_EQ(cudaMemsetAsync(y.data(), 0, kBytes, a_), cudaSuccess);
  ASSERT_EQ(Add(x, y, a_), cudaSuccess);
  ASSERT_EQ(Add(y, x, a_), cudaSuccess);
  ASSERT_EQ(Add(x, y, a_), cudaSuccess);
  ASSERT_EQ(
      cudaMemcpyAsync(host_, y.data(), kBytes, cudaMemcpyDeviceToHost, a_),
      cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(a_), cudaSuccess);
  for (int i = 0; i < kSize; ++i) EXPECT_EQ(host_[i], 3.0f);
}

TEST_P(Streams, WaitForEachOthersEvents) {
  DeviceArray<float> x = Ones(), y = Ones();
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(Add(x, y, a_), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(b_, event_), cudaSuccess);
    ASSERT_EQ(Axpy({kSize, -1.0f, x.data(), y.data()}, b_), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event_, b_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(a_, event_), cudaSuccess);
  }
  ExpectEqual(y, std::vector<float>(kSize, 1.0f));
}

TEST_P(Streams, EventIsItsLastRecord) {
  DeviceArray<float> x = Ones(), y = Ones();
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess);  // never recorded
  ASSERT_EQ(Add(x, y, a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(host_, y.data(), 4, cudaMemcpyDeviceToHost, a_),
            cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(host_[0], 2.0f);
}

TEST_P(Streams, PollingGetsThere) {
  DeviceArray<float> x = Ones(), y = Ones();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(Add(x, y, a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  int polls = 0;
  while (cudaEventQuery(event_) == cudaErrorNotReady) ++polls;
  EXPECT_EQ(cudaStreamQuery(a_), cudaSuccess);
  EXPECT_LE(polls, 6);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // not ready is no error
}

TEST_P(Streams, DestroyedOneStillRunsItsWork) {
  DeviceArray<float> x = Ones(), y = Ones();
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(Add(x, y, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  ExpectEqual(y, std::vector<float>(kSize, 2.0f));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
}

TEST_P(Streams, TimeBetweenEvents) {
  cudaEvent_t begin;
  ASSERT_EQ(cudaEventCreate(&begin), cudaSuccess);
  DeviceArray<float> x = Ones(), y = Ones();
  ASSERT_EQ(cudaEventRecord(begin, a_), cudaSuccess);
  ASSERT_EQ(Add(x, y, a_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, a_), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, event_), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(begin), cudaSuccess);
}

TEST_P(Streams, NullStreamIsOrderedWithBlockingOnes) {
  cudaStream_t blocking;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  DeviceArray<float> x = Ones(), y = Ones();
  for (int round = 0; round < 10; ++round) {
    ASSERT_EQ(cudaMemsetAsync(y.data(), 0, kBytes, nullptr), cudaSuccess);
    ASSERT_EQ(Add(x, y, blocking), cudaSuccess);
  }
  ASSERT_EQ(Add(x, y, nullptr), cudaSuccess);
  ExpectEqual(y, std::vector<float>(kSize, 2.0f));
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_P(Streams, ThreadsMayUseTheirOwn) {
  auto work = [&](cudaStream_t stream) {
    DeviceArray<float> x = Ones(), y = Ones();
    for (int i = 0; i < 50; ++i) ASSERT_EQ(Add(x, y, stream), cudaSuccess);
    ExpectEqual(y, std::vector<float>(kSize, 51.0f));
  };
  std::thread other(work, a_);
  work(b_);
  other.join();
}

// A synchronisation that is missing shows: nothing else runs the stream.
TEST(LazyStreams, RunOnlyWhenSomethingWaits) {
  SetStreamMode(StreamMode::kLazy);
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
            cudaSuccess);
  DeviceArray<float> x(std::vector<float>{1.0f});
  float value = 0;
  ASSERT_EQ(cudaMemsetAsync(x.data(), 0, 4, stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(&value, x.data(), 4, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(value, 1.0f);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(&value, x.data(), 4, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(value, 0.0f);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  Reset();
}

}  // namespace
}  // namespace recurve::cuda::emulation
