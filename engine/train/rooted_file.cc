#include "engine/train/rooted_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/status.h"

namespace recurve {
namespace {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::StatusOr<std::vector<std::string>> SplitPath(absl::string_view path) {
  std::vector<std::string> steps = absl::StrSplit(path, '/');
  for (const std::string& step : steps) {
    if (step.empty() || step == "." || step == ".." ||
        step.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server_path \"", path,
          "\": must be a path beneath the data root, without `.` and `..`"));
    }
  }
  return steps;
}

absl::Status SystemError(absl::string_view path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("server_path \"", path, "\""));
}

absl::Status OpenError(absl::string_view path, absl::string_view step) {
  // What O_NOFOLLOW says of a link, and O_DIRECTORY of a file.
  if (errno == ELOOP || errno == ENOTDIR) {
    return absl::InvalidArgumentError(
        absl::StrCat("server_path \"", path, "\": \"", step,
                     "\" is a symbolic link or not a folder"));
  }
  return SystemError(path);
}

absl::StatusOr<FileDescriptor> OpenBeneath(const std::string& root,
                                           absl::string_view path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> steps, SplitPath(path));
  FileDescriptor at(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return absl::ErrnoToStatus(errno, "opening the data root");
  for (size_t i = 0; i < steps.size(); ++i) {
    // O_NONBLOCK: opening a pipe must not wait for a writer.
    const int kind =
        i + 1 < steps.size() ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
    at = FileDescriptor(
        openat(at.get(), steps[i].c_str(), kind | O_NOFOLLOW | O_CLOEXEC));
    if (at.get() < 0) return OpenError(path, steps[i]);
  }
  return at;
}

// The file as long as it was when it was opened; shorter if it was cut since.
absl::StatusOr<std::string> ReadUpTo(int64_t size, const FileDescriptor& file,
                                     absl::string_view path) {
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t n = read(file.get(), &bytes[filled], bytes.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path);
    if (n == 0) break;
    filled += static_cast<size_t>(n);
  }
  bytes.resize(filled);
  return bytes;
}

}  // namespace

absl::StatusOr<std::string> ReadFileBeneath(const std::string& root,
                                            absl::string_view path,
                                            int64_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenBeneath(root, path));
  struct stat info;
  if (fstat(file.get(), &info) != 0) return SystemError(path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("server_path \"", path, "\" is not a regular file"));
  }
  if (info.st_size > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("server_path \"", path, "\" has ", info.st_size,
                     " bytes; at most ", max_bytes, " are read"));
  }
  return ReadUpTo(info.st_size, file, path);
}

}  // namespace recurve
