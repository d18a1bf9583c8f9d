#include "engine/base/testing/fault_file_calls.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "engine/base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

std::string TestPath() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + "/" + info->name();
  unlink(path.c_str());
  return path;
}

TEST(FaultFileCallsTest, CountsCallsAndFailsOneOfThem) {
  const std::string path = TestPath();
  Faults faults;
  FaultFileCalls calls(faults);
  faults.FailAt(2, ENOSPC);
  EXPECT_EQ(file_calls().Mkdir(path.c_str(), 0755), 0);
  EXPECT_EQ(faults.where(), "");
  EXPECT_EQ(file_calls().Rmdir(path.c_str()), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(faults.where(), "2: rmdir " + path);
  EXPECT_EQ(file_calls().Rmdir(path.c_str()), 0);
  EXPECT_EQ(faults.count(), 3);
  EXPECT_TRUE(faults.Disarm());
  EXPECT_EQ(faults.where(), "2: rmdir " + path);
  faults.FailAt(2, ENOSPC);
  EXPECT_EQ(faults.count(), 0);
  EXPECT_FALSE(faults.Disarm());
}

TEST(FaultFileCallsTest, ADiskThatStaysBrokenFailsAllThatFollows) {
  const std::string path = TestPath();
  Faults faults;
  FaultFileCalls calls(faults);
  faults.FailAt(2, EIO, Faults::kFromThen);
  EXPECT_EQ(file_calls().Mkdir(path.c_str(), 0755), 0);
  EXPECT_EQ(file_calls().Rmdir(path.c_str()), -1);
  EXPECT_EQ(file_calls().Rmdir(path.c_str()), -1);
  faults.Disarm();
  EXPECT_EQ(file_calls().Rmdir(path.c_str()), 0);
}

TEST(FaultFileCallsTest, AFailedWriteHasWrittenHalf) {
  const std::string path = TestPath();
  Faults faults;
  FaultFileCalls calls(faults);
  faults.FailAt(2, EIO);
  const int fd = file_calls().Open(path.c_str(), O_CREAT | O_WRONLY, 0644);
  EXPECT_EQ(file_calls().Write(fd, "123456", 6), -1);
  EXPECT_THAT(faults.where(), StartsWith("2: write "));
  EXPECT_THAT(faults.where(), EndsWith("/AFailedWriteHasWrittenHalf"));
  EXPECT_EQ(file_calls().Close(fd), 0);
  EXPECT_EQ(*ReadFile(path, 10), "123");
}

TEST(FaultFileCallsTest, AFailedCloseHasClosed) {
  const std::string path = TestPath();
  Faults faults;
  FaultFileCalls calls(faults);
  const int fd = file_calls().Open(path.c_str(), O_CREAT | O_WRONLY, 0644);
  faults.FailAt(1, EIO);
  EXPECT_EQ(file_calls().Close(fd), -1);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST(FaultFileCallsTest, CallsAFunctionOnceInTheMiddle) {
  const std::string path = TestPath();
  Faults faults;
  FaultFileCalls calls(faults);
  const int fd = file_calls().Open(path.c_str(), O_CREAT | O_WRONLY, 0644);
  std::string seen = "nothing";
  faults.CallAt(1, [&] { seen = *ReadFile(path, 10); });
  EXPECT_EQ(file_calls().Write(fd, "1234", 4), 4);
  EXPECT_EQ(seen, "12");
  EXPECT_EQ(file_calls().Close(fd), 0);
  EXPECT_EQ(seen, "12");
  EXPECT_EQ(*ReadFile(path, 10), "1234");
}

TEST(FaultFileCallsTest, ScopesNest) {
  const std::string path = TestPath();
  Faults outer_faults, inner_faults;
  FaultFileCalls outer(outer_faults);
  {
    FaultFileCalls inner(inner_faults);
    file_calls().Unlink(path.c_str());
  }
  EXPECT_EQ(inner_faults.count(), 1);
  EXPECT_EQ(outer_faults.count(), 0);
  file_calls().Unlink(path.c_str());
  EXPECT_EQ(outer_faults.count(), 1);
}

}  // namespace
}  // namespace recurve
