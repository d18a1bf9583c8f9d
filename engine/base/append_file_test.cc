#include "engine/base/append_file.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace recurve {
namespace {

std::string TestPath(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/append_file_" + name;
  std::filesystem::remove(path);
  return path;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(AppendFile, HoldsThePiecesInOrder) {
  const std::string path = TestPath("pieces");
  auto created = AppendFile::Create(path);
  ASSERT_TRUE(created.ok()) << created.status();
  AppendFile file = *std::move(created);
  ASSERT_TRUE(file.Append("one ").ok());
  ASSERT_TRUE(file.Append("").ok());
  ASSERT_TRUE(file.Append(std::string("t\0wo", 4)).ok());
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(Contents(path), std::string("one t\0wo", 8));
}

TEST(AppendFile, NeverTouchesAFileThatIsThere) {
  const std::string path = TestPath("there");
  std::ofstream(path) << "old";
  EXPECT_EQ(AppendFile::Create(path).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Contents(path), "old");
}

TEST(AppendFile, SaysWhichFileCouldNotBeWritten) {
  const std::string path = TestPath("no_folder/file");
  const absl::Status status = AppendFile::Create(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find(path), std::string::npos);
}

// A limit on file sizes stands in for a full disk.
TEST(AppendFile, ReportsAWriteThatFails) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small = {10, limit.rlim_max};
  auto file = AppendFile::Create(TestPath("limited"));
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_TRUE(file->Append("0123456789").ok());
  const absl::Status status = file->Append("x");
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_FALSE(status.ok());
}

}  // namespace
}  // namespace recurve
