#include "server/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve::server {

absl::StatusOr<DirectoryLock> DirectoryLock::Take(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("creating ", path, ": ", error.message()));
  }
  const std::string name = absl::StrCat(path, "/LOCK");
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) {
    return absl::UnavailableError(
        absl::StrCat("opening ", name, ": ", std::strerror(errno)));
  }
  DirectoryLock lock(path, file);
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        errno == EWOULDBLOCK
            ? absl::StrCat(path, " is in use by another server")
            : absl::StrCat("locking ", name, ": ", std::strerror(errno)));
  }
  return lock;
}

DirectoryLock::DirectoryLock(std::string path, int file)
    : path_(std::move(path)), file_(file) {}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

DirectoryLock::~DirectoryLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace recurve::server
