#include "engine/base/directory.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/file.h"
#include "engine/base/testing/fault_file_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/status.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::vector<std::string> Names() { return *ListDirectory(folder_); }
  void MakeTree(const std::string& name) {
    fs::create_directories(folder_ + "/" + name + "/sub");
    std::ofstream(folder_ + "/" + name + "/file") << "old";
    std::ofstream(folder_ + "/" + name + "/sub/file") << "old";
  }
  // What is to be seen whole.
  absl::Status Publish(const std::string& name) {
    ASSIGN_OR_RETURN(AsideDirectory aside,
                     AsideDirectory::Create(folder_ + "/" + name));
    for (const char* file : {"/one", "/two"}) {
      RETURN_IF_ERROR(WriteFileAtomically(aside.path() + file, {file}));
    }
    return aside.Publish();
  }

  const std::string folder_ =
      ::testing::TempDir() + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(DirectoryTest, CreatesFoldersWithThoseAbove) {
  EXPECT_TRUE(CreateDirectories(folder_ + "/a/b/c").ok());
  EXPECT_TRUE(CreateDirectories(folder_ + "/a/b/c").ok());
  EXPECT_TRUE(fs::is_directory(folder_ + "/a/b/c"));
  std::ofstream(folder_ + "/file") << "";
  const absl::Status status = CreateDirectories(folder_ + "/file/x");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(folder_ + "/file"), absl::string_view::npos);
}

// What is there was synced: no folder stays that another call would trust.
TEST_F(DirectoryTest, AFolderThatMayNotLastIsNotThere) {
  Faults faults;
  FaultFileCalls calls(faults);
  int64_t n = 1;
  for (;; ++n) {
    fs::remove_all(folder_ + "/a");
    faults.FailAt(n, EIO);
    const absl::Status status = CreateDirectories(folder_ + "/a/b");
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << faults.where();
    EXPECT_EQ(fs::exists(folder_ + "/a"), n > 3) << faults.where();
    EXPECT_FALSE(fs::exists(folder_ + "/a/b")) << faults.where();
    EXPECT_TRUE(CreateDirectories(folder_ + "/a/b").ok());
  }
  EXPECT_EQ(n - 1, 6);  // mkdir, open, fsync; twice
}

TEST_F(DirectoryTest, RemovesATreeButNotWhatItsLinksPointTo) {
  MakeTree("tree");
  MakeTree("other");
  fs::create_directory_symlink(folder_ + "/other", folder_ + "/tree/link");
  EXPECT_TRUE(RemoveTree(folder_ + "/tree").ok());
  EXPECT_THAT(Names(), ElementsAre("other"));
  EXPECT_TRUE(fs::exists(folder_ + "/other/sub/file"));
  EXPECT_TRUE(RemoveTree(folder_ + "/tree").ok());
  EXPECT_TRUE(RemoveTree(folder_ + "/other/file").ok());
  EXPECT_FALSE(fs::exists(folder_ + "/other/file"));
}

TEST_F(DirectoryTest, RemovingGoesOnAfterAFailureAndReportsIt) {
  Faults faults;
  FaultFileCalls calls(faults);
  int64_t n = 1;
  for (;; ++n) {
    MakeTree("tree");
    faults.FailAt(n, EACCES);
    const absl::Status status = RemoveTree(folder_ + "/tree");
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_TRUE(RemoveTree(folder_ + "/tree").ok()) << faults.where();
    EXPECT_THAT(Names(), IsEmpty()) << faults.where();
  }
  EXPECT_EQ(n - 1, 4);  // two files, two folders
}

TEST_F(DirectoryTest, SweepsOnlyWhatLiesAside) {
  MakeTree("kept");
  MakeTree(".aside-1-2");
  std::ofstream(folder_ + "/.aside-3-4") << "";
  SweepAside(folder_);
  EXPECT_THAT(Names(), ElementsAre("kept"));
  SweepAside(folder_ + "/none");
}

TEST_F(DirectoryTest, WhatIsMovedAsideIsGoneAtOnce) {
  MakeTree("tree");
  const auto aside = MoveAside(folder_ + "/tree");
  ASSERT_TRUE(aside.ok()) << aside.status();
  EXPECT_FALSE(fs::exists(folder_ + "/tree"));
  EXPECT_TRUE(fs::exists(*aside + "/sub/file"));
  EXPECT_TRUE(MoveAside(folder_ + "/tree").ok());
  SweepAside(folder_);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(DirectoryTest, WhatCannotBeMovedAsideStays) {
  MakeTree("tree");
  Faults faults;
  FaultFileCalls calls(faults);
  int64_t n = 1;
  for (;; ++n) {
    faults.FailAt(n, EIO);
    const auto aside = MoveAside(folder_ + "/tree");
    if (!faults.Disarm()) break;
    EXPECT_EQ(aside.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(Names(), ElementsAre("tree")) << faults.where();
  }
  EXPECT_EQ(n - 1, 3);  // rename, open, fsync
}

TEST_F(DirectoryTest, AFolderAppearsWholeOrIsRemoved) {
  {
    const auto aside = AsideDirectory::Create(folder_ + "/x");
    ASSERT_TRUE(aside.ok());
    std::ofstream(aside->path() + "/file") << "half";
    EXPECT_THAT(Names(), SizeIs(1));
    EXPECT_FALSE(fs::exists(folder_ + "/x"));
  }
  EXPECT_THAT(Names(), IsEmpty());
  ASSERT_TRUE(Publish("x").ok());
  EXPECT_THAT(Names(), ElementsAre("x"));
  EXPECT_THAT(*ListDirectory(folder_ + "/x"), ElementsAre("one", "two"));
}

TEST_F(DirectoryTest, WhicheverCallFailsOnceTheFolderDoesNotAppear) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, ENOSPC);
    const absl::Status status = Publish("x");
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(Names(), IsEmpty()) << faults.where();
  }
  EXPECT_THAT(Names(), ElementsAre("x"));
}

// The disk fails for good: it may have appeared, but then whole, and the next
// publication is not hindered.
TEST_F(DirectoryTest, WhateverFailsForGoodNoHalfAppears) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, EIO, Faults::kFromThen);
    const bool published = Publish("x").ok();
    if (!faults.Disarm()) break;
    EXPECT_FALSE(published) << faults.where();
    SweepAside(folder_);
    EXPECT_THAT(Names(), AnyOf(IsEmpty(), ElementsAre("x"))) << faults.where();
    if (!Names().empty()) {
      EXPECT_THAT(*ListDirectory(folder_ + "/x"), ElementsAre("one", "two"));
    }
    EXPECT_TRUE(Publish("x").ok()) << faults.where();
    fs::remove_all(folder_ + "/x");
  }
}

TEST_F(DirectoryTest, WhatAFailedPublicationLeftIsReplacedWhole) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    MakeTree("x");
    faults.FailAt(n, EIO);
    const bool published = Publish("x").ok();
    if (!faults.Disarm()) break;
    SweepAside(folder_);
    EXPECT_THAT(Names(), AnyOf(IsEmpty(), ElementsAre("x"))) << faults.where();
    if (!Names().empty()) {
      EXPECT_EQ(fs::exists(folder_ + "/x/one"), published) << faults.where();
      EXPECT_EQ(fs::exists(folder_ + "/x/sub/file"), !published);
    } else {
      EXPECT_FALSE(published);
    }
    fs::remove_all(folder_ + "/x");
  }
}

}  // namespace
}  // namespace recurve
