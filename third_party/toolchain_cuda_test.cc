// What --config=cuda makes starts, and says so, where there is no GPU.
#include "third_party/toolchain_cuda.h"

#include <cublasLt.h>
#include <nccl.h>

#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(CudaToolchain, ProgramsStartWithoutADriver) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) GTEST_SKIP() << "there are " << count << " GPUs";
  EXPECT_EQ(count, 0);
  EXPECT_NE(AddOne(nullptr, 1), cudaSuccess);
}

TEST(CudaToolchain, LibrariesAreLinked) {
  EXPECT_EQ(cublasLtGetVersion() / 10000, CUBLAS_VER_MAJOR);
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
}

}  // namespace
}  // namespace recurve
