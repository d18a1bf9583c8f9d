#include "engine/model/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

// A fresh folder of this test.
std::string Folder() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + "/" + info->name();
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

TEST(FileTest, WritesThePiecesInOrderAndLeavesNothingElse) {
  const std::string folder = Folder();
  ASSERT_TRUE(WriteFileAtomically(folder + "/a", {"one", "", "two"}).ok());
  EXPECT_EQ(*ReadFile(folder + "/a", 100), "onetwo");
  EXPECT_EQ(FilesIn(folder), std::vector<std::string>{"a"});
}

TEST(FileTest, ReplacesAnOldFile) {
  const std::string path = Folder() + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, {"a longer text"}).ok());
  ASSERT_TRUE(WriteFileAtomically(path, {"new"}).ok());
  EXPECT_EQ(*ReadFile(path, 100), "new");
}

TEST(FileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const std::string folder = Folder();
  // A folder that is not empty cannot be replaced by a file.
  std::filesystem::create_directories(folder + "/a/b");
  EXPECT_FALSE(WriteFileAtomically(folder + "/a", {"x"}).ok());
  EXPECT_EQ(FilesIn(folder), std::vector<std::string>{"a"});
  EXPECT_EQ(WriteFileAtomically(folder + "/none/a", {"x"}).code(),
            absl::StatusCode::kNotFound);
}

TEST(FileTest, ManyThreadsMayReplaceOneFile) {
  const std::string folder = Folder();
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    threads.emplace_back([&folder, letter] {
      const std::string text(10000, letter);
      for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(WriteFileAtomically(folder + "/f", {text}).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = *ReadFile(folder + "/f", 100000);
  EXPECT_EQ(text, std::string(10000, text[0]));
  EXPECT_EQ(FilesIn(folder), std::vector<std::string>{"f"});
}

TEST(FileTest, ReadingKeepsToItsLimit) {
  const std::string path = Folder() + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, {"12345"}).ok());
  EXPECT_TRUE(ReadFile(path, 5).ok());
  const absl::Status status = ReadFile(path, 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), path + " has 5 bytes; at most 4 are read");
}

TEST(FileTest, WhatIsNoFileIsRefused) {
  const std::string folder = Folder();
  EXPECT_EQ(ReadFile(folder + "/none", 9).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(folder, 9).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo((folder + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(folder + "/pipe").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(FileTest, AMappingMovesWithItsOwner) {
  const std::string path = Folder() + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, {"bytes"}).ok());
  MappedFile first = *MappedFile::Open(path);
  const uint8_t* data = first.bytes().data();
  MappedFile second = std::move(first);
  EXPECT_EQ(second.bytes().data(), data);
  EXPECT_EQ(second.bytes().size(), 5u);
  EXPECT_EQ(second.bytes()[4], 's');
  EXPECT_TRUE(first.bytes().empty());  // NOLINT: what a move leaves behind
}

TEST(FileTest, AnEmptyFileMapsToNothing) {
  const std::string path = Folder() + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, {}).ok());
  EXPECT_TRUE(MappedFile::Open(path)->bytes().empty());
  EXPECT_EQ(*ReadFile(path, 0), "");
}

}  // namespace
}  // namespace recurve
