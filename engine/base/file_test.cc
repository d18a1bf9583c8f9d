#include "engine/base/file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/directory.h"
#include "engine/base/testing/fault_file_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;

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

// Of one write over an old file.
struct Outcome {
  absl::Status status;
  bool reached = false;
  std::string where;
};

Outcome ReplaceWithFault(const std::string& path, int64_t n, int error,
                         Faults::Extent extent) {
  EXPECT_TRUE(WriteFileAtomically(path, {"old"}).ok());
  Faults faults;
  FaultFileCalls calls(faults);
  faults.FailAt(n, error, extent);
  Outcome outcome;
  outcome.status = WriteFileAtomically(path, {"new ", "bytes"});
  outcome.reached = faults.Disarm();
  outcome.where = faults.where();
  return outcome;
}

TEST(FileTest, WhicheverCallFailsOnceTheOldFileOrTheNewIsThereWhole) {
  const std::string folder = Folder();
  const std::string path = folder + "/a";
  int64_t n = 1;
  for (;; ++n) {
    const Outcome outcome = ReplaceWithFault(path, n, EIO, Faults::kOnce);
    if (!outcome.reached) break;
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDataLoss);
    EXPECT_NE(outcome.status.message().find(folder), absl::string_view::npos)
        << outcome.status;
    EXPECT_THAT(*ReadFile(path, 100), AnyOf("old", "new bytes"))
        << outcome.where;
    EXPECT_THAT(FilesIn(folder), ElementsAre("a")) << outcome.where;
  }
  // open, write, write, fsync, close, rename; open and fsync of the folder.
  EXPECT_EQ(n - 1, 8);
  EXPECT_EQ(*ReadFile(path, 100), "new bytes");
}

TEST(FileTest, OnAFullDiskTheOldFileStaysAndTheRestIsSwept) {
  const std::string folder = Folder();
  const std::string path = folder + "/a";
  for (int64_t n = 1;; ++n) {
    const Outcome outcome =
        ReplaceWithFault(path, n, ENOSPC, Faults::kFromThen);
    if (!outcome.reached) break;
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(*ReadFile(path, 100), AnyOf("old", "new bytes"))
        << outcome.where;
    SweepAside(folder);
    EXPECT_THAT(FilesIn(folder), ElementsAre("a")) << outcome.where;
  }
}

TEST(FileTest, WhereverTheProcessDiesTheOldFileOrTheNewIsThereWhole) {
  const std::string folder = Folder();
  const std::string path = folder + "/a";
  for (int64_t n = 1;; ++n) {
    ASSERT_TRUE(WriteFileAtomically(path, {"old"}).ok());
    const pid_t child = fork();
    if (child == 0) {
      Faults faults;
      FaultFileCalls calls(faults);
      faults.CallAt(n, [] { _exit(9); });
      _exit(WriteFileAtomically(path, {"new ", "bytes"}).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_THAT(*ReadFile(path, 100), AnyOf("old", "new bytes")) << n;
    SweepAside(folder);
    EXPECT_THAT(FilesIn(folder), ElementsAre("a")) << n;
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_EQ(WEXITSTATUS(status), 9);
  }
}

TEST(FileTest, ShortWritesAreContinued) {
  const std::string path = Folder() + "/a";
  Faults faults;
  FaultFileCalls calls(faults);
  calls.LimitWrites(3);
  ASSERT_TRUE(WriteFileAtomically(path, {"0123456789", "ab"}).ok());
  EXPECT_EQ(*ReadFile(path, 100), "0123456789ab");
  EXPECT_EQ(faults.count(), 11);  // five of them writes
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

TEST(FileTest, PartsAreReadWholeOrNotAtAll) {
  const std::string path = Folder() + "/a";
  ASSERT_TRUE(WriteFileAtomically(path, {"0123456789"}).ok());
  const auto file = ReadableFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 10);
  std::vector<uint8_t> part(3);
  ASSERT_TRUE(file->ReadAt(7, absl::MakeSpan(part)).ok());
  EXPECT_EQ(part, (std::vector<uint8_t>{'7', '8', '9'}));
  // As a mapping's end of the process would be.
  std::filesystem::resize_file(path, 9);
  const absl::Status status = file->ReadAt(7, absl::MakeSpan(part));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find(path), std::string::npos) << status;
  EXPECT_EQ(ReadableFile::Open(path + "none").status().code(),
            absl::StatusCode::kNotFound);
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
