#include "engine/base/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve {

absl::StatusOr<AppendFile> AppendFile::Create(const std::string& path) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("creating ", path));
  return AppendFile(path, fd);
}

AppendFile::AppendFile(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status AppendFile::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("writing ", path_));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AppendFile::Finish() {
  if (fsync(fd_) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("syncing ", path_));
  }
  if (close(std::exchange(fd_, -1)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("closing ", path_));
  }
  return absl::OkStatus();
}

}  // namespace recurve
