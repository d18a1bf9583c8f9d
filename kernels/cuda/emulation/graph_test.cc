// Capture of streams and replay of graphs.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/emulation/test_kernels.h"

namespace recurve::cuda::emulation {
namespace {

constexpr int kSize = 70;
constexpr size_t kBytes = kSize * sizeof(float);

class Graph : public testing::Test {
 protected:
  void SetUp() override {
    for (cudaStream_t* stream : {&stream_, &other_}) {
      ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
                cudaSuccess);
    }
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
              cudaSuccess);
  }
  void TearDown() override {
    Reset();
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(other_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
  }

  void Begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  // y += a * x
  cudaError_t Add(float a, cudaStream_t stream) {
    return Axpy({kSize, a, x_.data(), y_.data()}, stream);
  }
  cudaError_t Fork() {
    cudaError_t error = cudaEventRecord(event_, stream_);
    return error != cudaSuccess ? error : cudaStreamWaitEvent(other_, event_);
  }
  cudaError_t Join() {
    cudaError_t error = cudaEventRecord(event_, other_);
    return error != cudaSuccess ? error : cudaStreamWaitEvent(stream_, event_);
  }
  // Replays it this many times.
  void Replay(cudaGraph_t graph, int times) {
    cudaGraphExec_t executable;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph), cudaSuccess);
    for (int i = 0; i < times; ++i) {
      ASSERT_EQ(cudaGraphLaunch(executable, stream_), cudaSuccess);
    }
    ASSERT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
    ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }
  // What a call that a capture does not allow does to it.
  void ExpectInvalidated() {
    cudaStreamCaptureStatus status;
    ASSERT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    cudaGraph_t graph;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph),
              cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    cudaGetLastError();
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

  cudaStream_t stream_, other_;
  cudaEvent_t event_;
  DeviceArray<float> x_{std::vector<float>(kSize, 1.0f)};
  DeviceArray<float> y_{std::vector<float>(kSize, 0.0f)};
};

TEST_F(Graph, CaptureRunsNothingAndReplaysRunAll) {
  Begin();
  ASSERT_EQ(Add(1.0f, stream_), cudaSuccess);
  ASSERT_EQ(Add(2.0f, stream_), cudaSuccess);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  size_t nodes = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 2);
  ExpectEqual(y_, std::vector<float>(kSize, 0.0f));
  Replay(graph, 3);
  ExpectEqual(y_, std::vector<float>(kSize, 9.0f));
}

TEST_F(Graph, ReplayReadsPinnedMemoryAnew) {
  float* host;
  ASSERT_EQ(cudaMallocHost(&host, kBytes), cudaSuccess);
  Begin();
  ASSERT_EQ(
      cudaMemcpyAsync(y_.data(), host, kBytes, cudaMemcpyHostToDevice, stream_),
      cudaSuccess);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  for (int i = 0; i < kSize; ++i) host[i] = 4.0f;
  Replay(graph, 1);
  ExpectEqual(y_, std::vector<float>(kSize, 4.0f));
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

TEST_F(Graph, ForkedStreamsKeepTheirOrder) {
  Begin();
  ASSERT_EQ(cudaMemsetAsync(y_.data(), 0, kBytes, stream_), cudaSuccess);
  ASSERT_EQ(Fork(), cudaSuccess);
  ASSERT_EQ(Add(1.0f, other_), cudaSuccess);
  ASSERT_EQ(Join(), cudaSuccess);
  ASSERT_EQ(Axpy({kSize, 1.0f, y_.data(), y_.data()}, stream_), cudaSuccess);
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  Replay(graph, 10);
  ExpectEqual(y_, std::vector<float>(kSize, 2.0f));
}

TEST_F(Graph, ForkedStreamMustJoin) {
  Begin();
  ASSERT_EQ(Fork(), cudaSuccess);
  ASSERT_EQ(Add(1.0f, other_), cudaSuccess);
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph),
            cudaErrorStreamCaptureUnjoined);
}

TEST_F(Graph, NothingIsAllocatedInACapture) {
  void* pointer;
  Begin();
  EXPECT_EQ(cudaMalloc(&pointer, 16), cudaErrorStreamCaptureUnsupported);
  ExpectInvalidated();
  Begin();
  EXPECT_EQ(cudaMallocHost(&pointer, 16), cudaErrorStreamCaptureUnsupported);
  ExpectInvalidated();
}

TEST_F(Graph, NothingIsWaitedForInACapture) {
  Begin();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  ExpectInvalidated();
  Begin();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  ExpectInvalidated();
  Begin();
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaErrorCapturedEvent);
  ExpectInvalidated();
  Begin();
  float value;
  EXPECT_EQ(cudaMemcpy(&value, x_.data(), 4, cudaMemcpyDeviceToHost),
            cudaErrorStreamCaptureUnsupported);
  ExpectInvalidated();
}

TEST_F(Graph, UncapturedWorkIsNotWaitedFor) {
  ASSERT_EQ(Add(1.0f, other_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
  Begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, event_),
            cudaErrorStreamCaptureIsolation);
  ExpectInvalidated();
}

TEST_F(Graph, ThreadLocalCaptureLeavesOtherThreadsAlone) {
  Begin(cudaStreamCaptureModeThreadLocal);
  std::thread([] {
    void* pointer;
    EXPECT_EQ(cudaMalloc(&pointer, 16), cudaSuccess);
    EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  }).join();
  cudaGraph_t graph;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(Graph, CaptureEndsWhereItBegan) {
  Begin();
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph), cudaErrorInvalidValue);
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph),
              cudaErrorStreamCaptureWrongThread);
  }).join();
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

}  // namespace
}  // namespace recurve::cuda::emulation
