// Devices, memory and errors of the emulated runtime.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/emulation/test_kernels.h"

namespace recurve::cuda::emulation {
namespace {

class Runtime : public testing::Test {
 protected:
  void TearDown() override {
    Reset();
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  }
};

TEST_F(Runtime, HasTheDevicesThatAreSet) {
  int count = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  SetDeviceCount(0);
  count = 5;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 5);
  void* pointer;
  EXPECT_EQ(cudaMalloc(&pointer, 1), cudaErrorNoDevice);
}

TEST_F(Runtime, EachThreadHasItsOwnDevice) {
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int device = -1;
  std::thread([&] { cudaGetDevice(&device); }).join();
  EXPECT_EQ(device, 0);
  ASSERT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
}

TEST_F(Runtime, DescribesItsDevices) {
  SetComputeCapability(80);
  SetDeviceMemory(12345678);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_STREQ(properties.name, "Emulated CUDA device 1");
  EXPECT_EQ(properties.major, 8);
  EXPECT_EQ(properties.totalGlobalMem, 12345678);
  int value = 0;
  ASSERT_EQ(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0),
            cudaSuccess);
  EXPECT_EQ(value, properties.multiProcessorCount);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
}

TEST_F(Runtime, MemoryIsFiniteAndCounted) {
  SetDeviceMemory(1000);
  size_t free_bytes, total;
  void* a;
  void* b;
  ASSERT_EQ(cudaMalloc(&a, 600), cudaSuccess);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 256, 0);
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total), cudaSuccess);
  EXPECT_EQ(free_bytes, 400);
  EXPECT_EQ(total, 1000);
  EXPECT_EQ(cudaMalloc(&b, 401), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&b, 400), cudaSuccess);
  EXPECT_EQ(AllocatedDeviceBytes(), 1000);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(AllocatedDeviceBytes(), 0);
}

TEST_F(Runtime, CopiesFitTheirKind) {
  DeviceArray<float> x(std::vector<float>{1, 2, 3, 4}), y(4);
  float host[4];
  EXPECT_EQ(cudaMemcpy(host, x.data(), 16, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(y.data(), x.data(), 16, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host, 0, 16), cudaErrorInvalidValue);
  ASSERT_EQ(cudaMemcpy(y.data(), x.data(), 16, cudaMemcpyDeviceToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpy(host, y.data(), 16, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(host[3], 4.0f);
}

TEST_F(Runtime, CopiesBetweenDevices) {
  DeviceArray<float> x(std::vector<float>{1, 2, 3, 4});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  DeviceArray<float> y(4);
  EXPECT_EQ(cudaMemcpyPeerAsync(y.data(), 0, x.data(), 0, 16),
            cudaErrorInvalidValue);
  ASSERT_EQ(cudaMemcpyPeerAsync(y.data(), 1, x.data(), 0, 16), cudaSuccess);
  EXPECT_EQ(y.Download(), x.Download());
}

TEST_F(Runtime, KernelsTouchOtherDevicesOnlyAsPeers) {
  DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{1});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  DeviceArray<float> z(std::vector<float>{1});
  auto add = [&] {
    EXPECT_EQ(Axpy({1, 1.0f, x.data(), z.data()}, nullptr), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  };
  EXPECT_DEATH(add(), "");
  ASSERT_EQ(cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(0, 0),
            cudaErrorPeerAccessAlreadyEnabled);
  add();
  ExpectEqual(z, std::vector<float>{2});
}

TEST_F(Runtime, RefusesImpossibleLaunches) {
  DeviceArray<float> x(2000), y(2000);
  EXPECT_EQ(Shift({1025, y.data(), x.data()}, nullptr),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(Shift({0, y.data(), x.data()}, nullptr),
            cudaErrorInvalidConfiguration);
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(Shift({1, y.data(), x.data()}, stream),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(Runtime, NamesItsErrors) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation),
               "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(1000)),
               "unrecognized error code");
}

TEST_F(Runtime, FailsTheCallThatATestPicks) {
  FailCall(1, cudaErrorMemoryAllocation);
  void* a = nullptr;
  void* b = nullptr;
  EXPECT_EQ(cudaMalloc(&a, 8), cudaSuccess);
  EXPECT_TRUE(FailureIsPending());
  EXPECT_EQ(cudaMalloc(&b, 8), cudaErrorMemoryAllocation);
  EXPECT_EQ(b, nullptr);
  EXPECT_FALSE(FailureIsPending());
  EXPECT_EQ(cudaFree(a), cudaSuccess);
}

TEST_F(Runtime, BrokenDeviceStaysBroken) {
  DeviceArray<float> x(4), y(4);
  FailKernel(1, cudaErrorIllegalAddress);
  ASSERT_EQ(Shift({4, y.data(), x.data()}, nullptr), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  Shift({4, y.data(), x.data()}, nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  void* pointer;
  EXPECT_EQ(cudaMalloc(&pointer, 8), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&pointer, 8), cudaSuccess);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  Reset();
}

}  // namespace
}  // namespace recurve::cuda::emulation
