// Each kind of mistake in a kernel, or around one, is caught.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/emulation/order.h"
#include "kernels/cuda/emulation/test_kernels.h"

namespace recurve::cuda::emulation {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
constexpr bool kAddressSanitizer = false;
#endif

// Makes the mistake with n threads and arrays of n elements; gives y.
std::vector<float> Make(Mistake mistake, int n = 32) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 1.0f);
  DeviceArray<float> x(values), y(n);
  EXPECT_EQ(MakeMistake(mistake, {n, y.data(), x.data()}, nullptr),
            cudaSuccess);
  return y.Download();
}

// AddressSanitizer, where it is in the build, is the first to see some.
TEST(MistakeDeathTest, AccessesOutsideDeviceMemory) {
  EXPECT_DEATH(Make(Mistake::kWriteBehindEnd, 33),
               "wrote outside an allocation of 132 bytes|AddressSanitizer");
  EXPECT_DEATH(Make(Mistake::kWriteFarBehindEnd),
               "access to byte 40... of 128 bytes of device "
               "memory\nkernel .*MistakeKernel.*thread|AddressSanitizer");
  EXPECT_DEATH(Make(Mistake::kWriteBeforeBegin),
               "wrote outside an allocation of 128 bytes|AddressSanitizer");
}

TEST(MistakeDeathTest, ReadsOutsideDeviceMemoryGiveNaN) {
  if constexpr (kAddressSanitizer) {
    EXPECT_DEATH(Make(Mistake::kReadBehindEnd), "AddressSanitizer");
  } else {
    EXPECT_TRUE(std::isnan(Make(Mistake::kReadBehindEnd).back()));
  }
}

TEST(MistakeDeathTest, AccessesOutsideSharedMemory) {
  EXPECT_DEATH(Make(Mistake::kSharedIndex),
               "index outside an array\nkernel|out of bounds");
  EXPECT_DEATH(Make(Mistake::kSharedPointer),
               "wrote outside a shared array of 124 bytes|AddressSanitizer");
  EXPECT_DEATH(Make(Mistake::kTooMuchSharedMemory),
               "wants 49324 bytes of shared memory");
}

TEST(Mistake, SharedMemoryIsUnwrittenInEveryBlock) {
  for (float y : Make(Mistake::kUnwrittenShared)) EXPECT_TRUE(std::isnan(y));
}

TEST(MistakeDeathTest, MisalignedVectors) {
#ifdef __clang__
  GTEST_SKIP() << "clang does not check copies of whole vectors";
#endif
  EXPECT_DEATH(Make(Mistake::kMisaligned), "misaligned access");
}

TEST(MistakeDeathTest, BarriersThatNotAllReach) {
  EXPECT_DEATH(Make(Mistake::kDivergentBarrier),
               "divergent barrier: thread .*test_kernels.cu:.*; thread "
               ".*test_kernels.cu:");
  EXPECT_DEATH(Make(Mistake::kReturnBeforeBarrier),
               "wait for ever.*has returned");
  EXPECT_DEATH(Make(Mistake::kBarrierAgainstShuffle), "wait for ever");
}

TEST(MistakeDeathTest, WarpOperationsWhoseLanesDisagree) {
  EXPECT_DEATH(Make(Mistake::kMaskWithoutSelf), "not in its own mask");
  EXPECT_DEATH(Make(Mistake::kMaskNamesReturnedLane),
               "names lane 3, which has returned|wait for ever.*has returned");
  EXPECT_DEATH(Make(Mistake::kMaskNamesAbsentLane, 31),
               "names lane 31, which is not in the block");
  EXPECT_DEATH(Make(Mistake::kMasksDisagree), "lanes disagree|has returned");
  EXPECT_DEATH(Make(Mistake::kLinesDisagree), "lanes disagree");
}

TEST(Mistake, LanesOutsideTheMaskGivePoison) {
  std::vector<float> y = Make(Mistake::kShuffleFromOutsideMask);
  EXPECT_EQ(y[14], 16.0f);
  EXPECT_TRUE(std::isnan(y[15]));
}

TEST(Mistake, UnwrittenOutputIsCounted) {
  DeviceArray<float> y(40);
  ASSERT_EQ(MakeMistake(Mistake::kTailUnwritten, {40, y.data()}, nullptr),
            cudaSuccess);
  EXPECT_EQ(y.CountUntouched(), 1);
}

bool ShiftsRightWithoutBarrier(ThreadOrder order) {
  SetThreadOrder(order);
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 1.0f);
  DeviceArray<float> x(values), y(256);
  EXPECT_EQ(ShiftWithoutBarrier({256, y.data(), x.data()}, nullptr),
            cudaSuccess);
  std::vector<float> expected(256);
  std::iota(expected.begin(), expected.end(), 0.0f);
  const bool right = y.Download() == expected;
  SetThreadOrder(ThreadOrder::kMixed);
  return right;
}

TEST(Mistake, MissingBarrierShowsInSomeOrders) {
  EXPECT_TRUE(ShiftsRightWithoutBarrier(ThreadOrder::kForward));
  EXPECT_FALSE(ShiftsRightWithoutBarrier(ThreadOrder::kReverse));
  EXPECT_FALSE(ShiftsRightWithoutBarrier(ThreadOrder::kRandom));
}

// --- around kernels ---

TEST(MistakeDeathTest, HostTouchesDeviceMemory) {
  DeviceArray<float> x(std::vector<float>(4, 1.0f));
  EXPECT_DEATH(std::fprintf(stderr, "%f", x.data()[1]),
               "byte 4 of 16 bytes of device memory by host code|"
               "AddressSanitizer");
  EXPECT_DEATH(x.data()[1] = 2.0f, "by host code|AddressSanitizer");
}

TEST(MistakeDeathTest, HostTouchesFreedMemory) {
  float* pointer;
  ASSERT_EQ(cudaMallocHost(&pointer, 4096), cudaSuccess);
  ASSERT_EQ(cudaFreeHost(pointer), cudaSuccess);
  EXPECT_DEATH(pointer[3] = 1.0f, "");
}

// Pinned memory and a stream that runs only when it has to.
class Staging : public testing::Test {
 protected:
  void SetUp() override {
    SetStreamMode(StreamMode::kLazy);
    ASSERT_EQ(cudaMallocHost(&staging_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
              cudaSuccess);
  }
  void TearDown() override {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(staging_), cudaSuccess);
    Reset();
  }

  static constexpr size_t kBytes = 64;
  float* staging_;
  cudaStream_t stream_;
};
using StagingDeathTest = Staging;

TEST_F(StagingDeathTest, WrittenAgainBeforeItsCopyRan) {
  DeviceArray<float> x(16);
  staging_[5] = 1.0f;
  ASSERT_EQ(cudaMemcpyAsync(x.data(), staging_, kBytes, cudaMemcpyHostToDevice,
                            stream_),
            cudaSuccess);
  staging_[5] = 2.0f;
  EXPECT_DEATH(cudaStreamSynchronize(stream_),
               "the host changed 64 bytes of pinned memory");
  staging_[5] = 1.0f;
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(x.Download()[5], 1.0f);
}

TEST_F(Staging, ReadBeforeItsCopyRan) {
  DeviceArray<float> x(std::vector<float>(16, 3.0f));
  staging_[0] = 3.0f;  // left of an earlier round
  ASSERT_EQ(cudaMemcpyAsync(staging_, x.data(), kBytes, cudaMemcpyDeviceToHost,
                            stream_),
            cudaSuccess);
  EXPECT_TRUE(std::isnan(staging_[0]));
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(staging_[0], 3.0f);
}

TEST_F(StagingDeathTest, CopiesOfPageableMemoryAreNotAsynchronous) {
  DeviceArray<float> x(16);
  std::vector<float> values(16);
  EXPECT_DEATH(cudaMemcpyAsync(x.data(), values.data(), kBytes,
                               cudaMemcpyHostToDevice, stream_),
               "pageable");
}

TEST_F(StagingDeathTest, CopiesStayInsideTheirAllocations) {
  DeviceArray<float> x(16);
  EXPECT_DEATH(cudaMemcpyAsync(x.data() + 1, staging_, kBytes,
                               cudaMemcpyHostToDevice, stream_),
               "64 bytes .* behind the end of their allocation");
  EXPECT_DEATH(cudaMemsetAsync(x.data() + 1, 0, kBytes, stream_),
               "behind the end of their allocation");
}

}  // namespace
}  // namespace recurve::cuda::emulation
