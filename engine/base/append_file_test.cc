#include "engine/base/append_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "engine/base/testing/fault_file_calls.h"
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

TEST(AppendFile, ReportsEveryCallThatFails) {
  const std::string path = TestPath("fails");
  Faults faults;
  FaultFileCalls calls(faults);
  int64_t n = 1;
  for (;; ++n) {
    std::filesystem::remove(path);
    faults.FailAt(n, ENOSPC);
    auto file = AppendFile::Create(path);
    absl::Status status = file.status();
    if (status.ok()) status = file->Append("bytes");
    if (status.ok()) status = file->Finish();
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
  }
  EXPECT_EQ(n - 1, 4);  // open, write, fsync, close
}

}  // namespace
}  // namespace recurve
