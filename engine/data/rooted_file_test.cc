#include "engine/data/rooted_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;

class RootedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "a/b");
    std::ofstream(root_ / "a/b/file") << "inside";
    std::ofstream(base_ / "secret") << "outside";
  }
  void TearDown() override { fs::remove_all(base_); }

  absl::StatusOr<std::string> Read(const std::string& path) {
    return ReadFileBeneath(root_, path, 1000);
  }
  absl::StatusCode Code(const std::string& path) {
    return Read(path).status().code();
  }

  const fs::path base_ =
      fs::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const fs::path root_ = base_ / "root";
};

TEST_F(RootedFileTest, ReadsAFileInAFolder) {
  const auto bytes = Read("a/b/file");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, "inside");
}

TEST_F(RootedFileTest, RefusesPathsThatLeaveTheRoot) {
  for (const std::string& path :
       {std::string("../secret"), std::string("a/../../secret"),
        (base_ / "secret").string(), std::string("a//b/file"),
        std::string("./a/b/file"), std::string(""), std::string("a/b/"),
        std::string("a/b/file\0x", 10)}) {
    EXPECT_EQ(Code(path), absl::StatusCode::kInvalidArgument) << path;
  }
}

TEST_F(RootedFileTest, RefusesLinksAtEveryStep) {
  fs::create_symlink(base_ / "secret", root_ / "link");
  fs::create_directory_symlink(base_, root_ / "up");
  fs::create_directory_symlink(root_ / "a", root_ / "within");
  for (const char* path : {"link", "up/secret", "within/b/file"}) {
    EXPECT_EQ(Code(path), absl::StatusCode::kInvalidArgument) << path;
  }
}

TEST_F(RootedFileTest, RefusesWhatIsNotARegularFile) {
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  for (const char* path : {"a", "pipe", "a/b/file/more"}) {
    EXPECT_EQ(Code(path), absl::StatusCode::kInvalidArgument) << path;
  }
  EXPECT_EQ(Code("a/none"), absl::StatusCode::kNotFound);
}

TEST_F(RootedFileTest, RefusesFilesAboveTheLimit) {
  std::ofstream(root_ / "most") << std::string(1000, 'x');
  std::ofstream(root_ / "more") << std::string(1001, 'x');
  EXPECT_EQ(Read("most")->size(), 1000u);
  EXPECT_EQ(Code("more"), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace recurve
