#include "server/access/watched_files.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace recurve::server {
namespace {

namespace fs = std::filesystem;

class WatchedFilesTest : public testing::Test {
 protected:
  WatchedFilesTest() { fs::create_directories(folder_); }
  ~WatchedFilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }

 private:
  const std::string folder_ = testing::TempDir() + "/watched_files/";
};

TEST_F(WatchedFilesTest, SeesEachChangeOnce) {
  Write("a", "one");
  WatchedFiles files({Path("a"), Path("b")});
  EXPECT_FALSE(files.Changed());
  Write("a", "longer");
  EXPECT_TRUE(files.Changed());
  EXPECT_FALSE(files.Changed());
  Write("b", "now there");
  EXPECT_TRUE(files.Changed());
  fs::remove(Path("b"));
  EXPECT_TRUE(files.Changed());
  EXPECT_FALSE(files.Changed());
}

TEST_F(WatchedFilesTest, SeesAFileOfEqualSizeAndTimeRenamedOverIt) {
  Write("a", "one");
  Write("other", "two");
  fs::last_write_time(Path("other"), fs::last_write_time(Path("a")));
  WatchedFiles files({Path("a")});
  fs::rename(Path("other"), Path("a"));
  EXPECT_TRUE(files.Changed());
}

TEST_F(WatchedFilesTest, SeesALinkThatPointsElsewhere) {
  Write("one", "same");
  Write("two", "same");
  fs::create_symlink(Path("one"), Path("link"));
  WatchedFiles files({Path("link")});
  fs::create_symlink(Path("two"), Path("new link"));
  fs::rename(Path("new link"), Path("link"));
  EXPECT_TRUE(files.Changed());
}

}  // namespace
}  // namespace recurve::server
