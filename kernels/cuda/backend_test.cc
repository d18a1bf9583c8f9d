// The backend as a device, on the emulation: memory, copies, replays, errors.
// What its operations compute: conformance.cc and tests/golden.
#include "kernels/cuda/backend.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/settings.h"

namespace recurve {
namespace {

namespace emulation = cuda::emulation;

std::unique_ptr<Backend> Create(int ordinal = 0) {
  auto backend = CreateCudaBackend(ordinal);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

class Floats {
 public:
  Floats(Backend& backend, const std::vector<float>& values)
      : backend_(backend), size_(values.size()) {
    buffer_ = *backend.Allocate(size_ * sizeof(float));
    Set(values);
  }
  float* data() const { return static_cast<float*>(buffer_->data()); }
  void Set(const std::vector<float>& values) {
    EXPECT_TRUE(
        backend_.Upload(data(), values.data(), size_ * sizeof(float)).ok());
  }
  std::vector<float> Get() const {
    std::vector<float> values(size_);
    EXPECT_TRUE(
        backend_.Download(values.data(), data(), size_ * sizeof(float)).ok());
    return values;
  }

 private:
  Backend& backend_;
  const size_t size_;
  std::unique_ptr<DeviceBuffer> buffer_;
};

class CudaBackendTest : public ::testing::Test {
 protected:
  ~CudaBackendTest() override {
    emulation::Reset();
    cudaSetDevice(0);
  }
};

TEST_F(CudaBackendTest, BuffersAreAlignedAndCopiesRoundTrip) {
  const auto backend = Create();
  for (int64_t bytes : {0, 1, 64, 1000}) {
    auto buffer = backend->Allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    void* data = (*buffer)->data();
    EXPECT_EQ((*buffer)->bytes(), bytes);
    EXPECT_NE(data, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % kAlignment, 0u);
    std::vector<char> in(bytes, 'x'), out(bytes);
    EXPECT_TRUE(backend->Upload(data, in.data(), bytes).ok());
    EXPECT_TRUE(backend->Download(out.data(), data, bytes).ok());
    EXPECT_EQ(in, out);
    EXPECT_TRUE(backend->Zero(data, bytes).ok());
    EXPECT_TRUE(backend->Download(out.data(), data, bytes).ok());
    EXPECT_EQ(out, std::vector<char>(bytes, '\0'));
  }
}

TEST_F(CudaBackendTest, TakesItsWorkspaceAndGivesAllBack) {
  const size_t before = emulation::AllocatedDeviceBytes();
  {
    const auto backend = Create();
    EXPECT_EQ(emulation::AllocatedDeviceBytes() - before,
              static_cast<size_t>(cuda::kWorkspaceBytes));
    const auto buffer = backend->Allocate(1000);
    EXPECT_EQ(emulation::AllocatedDeviceBytes() - before,
              static_cast<size_t>(cuda::kWorkspaceBytes) + 1000);
  }
  EXPECT_EQ(emulation::AllocatedDeviceBytes(), before);
  EXPECT_EQ(emulation::AllocatedPinnedBytes(), 0u);
}

TEST_F(CudaBackendTest, MoreMemoryThanThereIsIsRefusedWithTheNumbers) {
  const auto backend = Create();
  const absl::Status status = backend->Allocate(int64_t{1} << 40).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "1099511627776")) << status;
  EXPECT_EQ(backend->Allocate(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
  // No trace of it in what comes later.
  Floats x(*backend, {1, 2}), y(*backend, {3, 4});
  EXPECT_TRUE(backend->Add(x.data(), y.data(), 2).ok());
  EXPECT_EQ(x.Get(), std::vector<float>({4, 6}));
}

TEST_F(CudaBackendTest, WithoutTheDeviceIsUnavailable) {
  emulation::SetDeviceCount(1);
  EXPECT_EQ(CreateCudaBackend(1).status().code(),
            absl::StatusCode::kUnavailable);
  emulation::SetDeviceCount(0);
  EXPECT_EQ(CreateCudaBackend(0).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(CudaBackendTest, AGpuThatTheKernelsWereNotBuiltForIsUnavailable) {
  for (const cudaError_t error :
       {cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion}) {
    emulation::SetComputeCapability(80);
    // After what is asked of the device.
    emulation::FailCall(4, error);
    const absl::Status status = CreateCudaBackend(0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(status.message(), "compute capability 8.0"))
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "--config=cuda_all"))
        << status;
    emulation::Reset();
  }
}

TEST_F(CudaBackendTest, BackendsOfOneThreadKeepApart) {
  const auto a = Create(0), b = Create(1), c = Create(0);
  Floats x(*a, {1, 2}), y(*b, {10, 20}), z(*c, {100, 200});
  EXPECT_TRUE(a->Add(x.data(), x.data(), 2).ok());
  EXPECT_TRUE(b->Add(y.data(), y.data(), 2).ok());
  EXPECT_TRUE(c->Add(z.data(), z.data(), 2).ok());
  EXPECT_EQ(*b->SumOfSquares(y.data(), 2), 400.0 + 1600.0);
  EXPECT_EQ(x.Get(), std::vector<float>({2, 4}));
  EXPECT_EQ(y.Get(), std::vector<float>({20, 40}));
  EXPECT_EQ(z.Get(), std::vector<float>({200, 400}));
}

TEST_F(CudaBackendTest, AnotherThreadThanItsMakersMayUseIt) {
  const auto backend = Create(1);
  std::vector<float> result;
  std::thread([&] {
    Floats x(*backend, {1, 2});
    EXPECT_TRUE(backend->Add(x.data(), x.data(), 2).ok());
    result = x.Get();
  }).join();
  EXPECT_EQ(result, std::vector<float>({2, 4}));
}

TEST_F(CudaBackendTest, ReplaysReadWhatIsThereEachTime) {
  const auto backend = Create();
  Floats x(*backend, {0, 0}), y(*backend, {0, 0});
  std::unique_ptr<Recording> recording;
  int calls = 0;
  for (float value = 1; value <= 4; ++value) {
    x.Set({value, 2 * value});
    y.Set({100, 100});
    ASSERT_TRUE(backend
                    ->Replay(recording,
                             [&] {
                               ++calls;
                               return backend->Add(y.data(), x.data(), 2);
                             })
                    .ok());
    EXPECT_EQ(y.Get(), std::vector<float>({100 + value, 100 + 2 * value}));
  }
  EXPECT_EQ(calls, 2);
}

TEST_F(CudaBackendTest, WhatCannotBeRecordedIsRefused) {
  const auto backend = Create();
  Floats x(*backend, {1, 2});
  float host[2] = {};
  const std::vector<std::function<absl::Status()>> refused = {
      [&] { return backend->Allocate(8).status(); },
      [&] { return backend->Upload(x.data(), host, 8); },
      [&] { return backend->Download(host, x.data(), 8); },
      [&] { return backend->SumOfSquares(x.data(), 2).status(); },
      [&] { return backend->Synchronize(); }};
  for (const auto& operation : refused) {
    std::unique_ptr<Recording> recording;
    EXPECT_TRUE(backend->Replay(recording, operation).ok());
    EXPECT_EQ(backend->Replay(recording, operation).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(operation().ok());
  }
}

// Whichever call of CUDA fails, it is an error and not a crash or a wrong
// result.
TEST_F(CudaBackendTest, EachFailureComesBack) {
  bool pending = false;
  int failures = 0;
  for (int skip = 0; !pending; ++skip) {
    SCOPED_TRACE(skip);
    emulation::FailCall(skip, cudaErrorECCUncorrectable);
    std::vector<float> result = {0, 0};
    const absl::Status status = [&]() -> absl::Status {
      auto backend = CreateCudaBackend(0);
      if (!backend.ok()) return backend.status();
      auto buffer = (*backend)->Allocate(8);
      if (!buffer.ok()) return buffer.status();
      float* data = static_cast<float*>((*buffer)->data());
      const float host[] = {1, 2};
      if (absl::Status s = (*backend)->Upload(data, host, 8); !s.ok()) return s;
      if (absl::Status s = (*backend)->Add(data, data, 2); !s.ok()) return s;
      const auto sum = (*backend)->SumOfSquares(data, 2);
      if (!sum.ok()) return sum.status();
      EXPECT_EQ(*sum, 20.0);
      return (*backend)->Download(result.data(), data, 8);
    }();
    pending = emulation::FailureIsPending();
    failures += !status.ok();
    if (status.ok()) {
      EXPECT_EQ(result, std::vector<float>({2, 4}));
    }
    emulation::Reset();
  }
  EXPECT_GT(failures, 20);
}

TEST_F(CudaBackendTest, ABrokenDeviceIsAnErrorWhereverItIsWaitedFor) {
  const auto backend = Create();
  Floats x(*backend, {1, 2});
  emulation::FailKernel(0, cudaErrorIllegalAddress);
  absl::Status status = backend->Add(x.data(), x.data(), 2);
  if (status.ok()) status = backend->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "cudaErrorIllegalAddress"))
      << status;
}

}  // namespace
}  // namespace recurve
