#include "server/kserve/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/kserve/shared_memory_calls.h"
#include "server/kserve/shared_memory_test_util.h"

namespace recurve::server::kserve {
namespace {

// An object of this process, removed at its end.
class Object {
 public:
  explicit Object(const std::string& bytes)
      : key(UniqueKey()),
        fd_(shm_open(key.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600)) {
    EXPECT_GE(fd_, 0);
    EXPECT_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0),
              ssize_t(bytes.size()));
  }
  ~Object() {
    close(fd_);
    shm_unlink(key.c_str());
  }
  std::string Bytes() const {
    std::string bytes(lseek(fd_, 0, SEEK_END), '\0');
    EXPECT_EQ(pread(fd_, bytes.data(), bytes.size(), 0), ssize_t(bytes.size()));
    return bytes;
  }
  void Resize(int64_t size) { EXPECT_EQ(ftruncate(fd_, size), 0); }

  const std::string key;

 private:
  const int fd_;
};

absl::StatusCode RegisterCode(const std::string& key, uint64_t offset,
                              uint64_t byte_size) {
  SharedMemoryRegions regions;
  return regions.Register("r", key, offset, byte_size).code();
}

TEST(SharedMemoryTest, ReadsAndWritesWithinTheRegion) {
  const Object object("0123456789");
  SharedMemoryRegions regions;
  ASSERT_TRUE(regions.Register("r", object.key, 2, 6).ok());
  const RegionHandle region = regions.Find("r").value();
  EXPECT_EQ(region->Read(0, 6).value(), "234567");
  EXPECT_EQ(region->Read(4, 2).value(), "67");
  EXPECT_EQ(region->Read(6, 0).value(), "");
  ASSERT_TRUE(region->Write(1, "abc").ok());
  EXPECT_EQ(object.Bytes(), "012abc6789");
}

TEST(SharedMemoryTest, NothingOutsideTheRegion) {
  const Object object("0123456789");
  SharedMemoryRegions regions;
  ASSERT_TRUE(regions.Register("r", object.key, 2, 6).ok());
  const RegionHandle region = regions.Find("r").value();
  const struct {
    uint64_t offset, size;
  } bad[] = {{0, 7}, {6, 1}, {7, 0}, {UINT64_MAX, 1}, {1, UINT64_MAX}};
  for (const auto& [offset, size] : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(region->CheckRange(offset, size)));
    EXPECT_TRUE(absl::IsInvalidArgument(region->Read(offset, size).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(region->Write(4, "abc")));
  EXPECT_EQ(object.Bytes(), "0123456789");
}

TEST(SharedMemoryTest, ARegionLiesInsideItsObject) {
  const Object object("0123456789");
  using absl::StatusCode;
  EXPECT_EQ(RegisterCode(object.key, 0, 10), StatusCode::kOk);
  EXPECT_EQ(RegisterCode(object.key, 9, 1), StatusCode::kOk);
  EXPECT_EQ(RegisterCode(object.key, 0, 0), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode(object.key, 0, 11), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode(object.key, 10, 1), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode(object.key, 5, UINT64_MAX),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode(object.key, UINT64_MAX, 5),
            StatusCode::kInvalidArgument);
}

TEST(SharedMemoryTest, AKeyIsOnePlainName) {
  const Object object("0123");
  using absl::StatusCode;
  EXPECT_EQ(RegisterCode(object.key.substr(1), 0, 4), StatusCode::kOk);
  EXPECT_EQ(RegisterCode("/" + object.key, 0, 4), StatusCode::kOk);
  for (const std::string bad :
       {"", "/", ".", "..", "/..", "../etc/passwd", "/a/b", "a/../b"}) {
    EXPECT_EQ(RegisterCode(bad, 0, 4), StatusCode::kInvalidArgument) << bad;
  }
  EXPECT_EQ(RegisterCode(std::string("a\0b", 3), 0, 4),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode(std::string(NAME_MAX + 1, 'a'), 0, 4),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(RegisterCode("recurve_shared_memory_test_absent", 0, 4),
            StatusCode::kNotFound);
}

// By whoever may write there, a link to any file of the server's user, say.
TEST(SharedMemoryTest, WhatOnlyLiesAmongTheObjectsIsNone) {
  const Object object("0123");
  const std::string key = object.key + "_other";
  const std::string path = "/dev/shm" + key;
  const auto register_it = [&] {
    SharedMemoryRegions regions;
    const absl::Status status = regions.Register("r", key, 0, 4);
    std::filesystem::remove(path);
    return status;
  };
  std::filesystem::create_symlink("/dev/shm" + object.key, path);
  const absl::Status link = register_it();
  EXPECT_TRUE(absl::IsInvalidArgument(link)) << link;
  EXPECT_NE(link.message().find("a symbolic link"), absl::string_view::npos);
  std::filesystem::create_directory(path);
  const absl::Status folder = register_it();
  EXPECT_TRUE(absl::IsInvalidArgument(folder)) << folder;
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const absl::Status pipe = register_it();
  EXPECT_TRUE(absl::IsInvalidArgument(pipe)) << pipe;
  ASSERT_EQ(mknod(path.c_str(), S_IFSOCK | 0600, 0), 0);
  const absl::Status socket = register_it();
  EXPECT_TRUE(absl::IsInvalidArgument(socket)) << socket;
}

TEST(SharedMemoryTest, AnObjectCutShortIsAnError) {
  Object object("0123456789");
  SharedMemoryRegions regions;
  ASSERT_TRUE(regions.Register("r", object.key, 0, 10).ok());
  const RegionHandle region = regions.Find("r").value();
  object.Resize(4);
  EXPECT_EQ(region->Read(0, 4).value(), "0123");
  EXPECT_TRUE(absl::IsInvalidArgument(region->Read(0, 5).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(region->Write(2, "abc")));
  EXPECT_EQ(object.Bytes(), "0123");
}

TEST(SharedMemoryTest, AHandleOutlivesItsRegistration) {
  const Object object("0123");
  SharedMemoryRegions regions;
  ASSERT_TRUE(regions.Register("r", object.key, 0, 4).ok());
  const RegionHandle region = regions.Find("r").value();
  regions.Unregister("r");
  EXPECT_TRUE(absl::IsNotFound(regions.Find("r").status()));
  EXPECT_EQ(region->Read(0, 4).value(), "0123");
}

TEST(SharedMemoryTest, NamesAreTakenOnceUntilTheyAreGivenBack) {
  const Object object("0123");
  SharedMemoryRegions regions;
  ASSERT_TRUE(regions.Register("b", object.key, 0, 4).ok());
  ASSERT_TRUE(regions.Register("a", object.key, 0, 2).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(regions.Register("a", object.key, 0, 4)));
  EXPECT_TRUE(absl::IsInvalidArgument(regions.Register("", object.key, 0, 4)));
  ASSERT_EQ(regions.List().size(), 2u);
  EXPECT_EQ(regions.List()[0]->name(), "a");
  EXPECT_EQ(regions.List()[0]->byte_size(), 2u);
  regions.Unregister("absent");
  regions.Unregister("a");
  EXPECT_TRUE(regions.Register("a", object.key, 0, 4).ok());
  regions.UnregisterAll();
  EXPECT_TRUE(regions.List().empty());
}

TEST(SharedMemoryTest, IsForPeersOnThisMachine) {
  for (const char* const peer :
       {"ipv4:127.0.0.1:4711", "ipv4:127.8.0.1:1", "ipv6:[::1]:4711",
        "ipv6:%5B::1%5D:4711", "ipv6:%5B::ffff:127.0.0.1%5D:4711",
        "unix:/tmp/socket"}) {
    EXPECT_TRUE(SharesMemory(peer)) << peer;
  }
  for (const char* const peer :
       {"", "ipv4:192.0.2.7:4711", "ipv4:1.127.0.1:4711", "ipv4:12.7.0.0:1",
        "ipv6:[::12]:1", "ipv6:%5B2001:db8::1%5D:4711"}) {
    EXPECT_FALSE(SharesMemory(peer)) << peer;
  }
}

TEST(SharedMemoryTest, ThereIsALimit) {
  const Object object("0123");
  SharedMemoryRegions regions;
  for (size_t i = 0; i < SharedMemoryRegions::kMaxRegions; ++i) {
    ASSERT_TRUE(regions.Register(absl::StrCat("r", i), object.key, 0, 4).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(
      regions.Register("one more", object.key, 0, 4)));
}

}  // namespace
}  // namespace recurve::server::kserve
