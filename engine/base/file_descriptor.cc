#include "engine/base/file_descriptor.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/file_calls.h"
#include "kernels/status.h"

namespace recurve {

absl::Status SystemError(absl::string_view action, absl::string_view name) {
  const int code = errno;
  absl::Status status =
      absl::ErrnoToStatus(code, absl::StrCat("cannot ", action, " ", name));
  if (code == EIO) return absl::DataLossError(status.message());
  if (code == EDQUOT) return absl::ResourceExhaustedError(status.message());
  if (status.code() == absl::StatusCode::kUnknown) {
    return absl::UnavailableError(status.message());
  }
  return status;
}

FileDescriptor::FileDescriptor(FileDescriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::Status FileDescriptor::Write(absl::string_view bytes,
                                   absl::string_view name) {
  while (!bytes.empty()) {
    const ssize_t written = file_calls().Write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", name);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status FileDescriptor::Finish(absl::string_view name) {
  if (file_calls().Fsync(fd_) != 0) return SystemError("sync", name);
  if (file_calls().Close(std::exchange(fd_, -1)) != 0) {
    return SystemError("close", name);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> RegularFileSize(const FileDescriptor& file,
                                        absl::string_view name) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return SystemError("look at", name);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is not a regular file"));
  }
  return static_cast<int64_t>(info.st_size);
}

absl::StatusOr<std::string> ReadRegularFile(const FileDescriptor& file,
                                            int64_t max_bytes,
                                            absl::string_view name) {
  ASSIGN_OR_RETURN(const int64_t size, RegularFileSize(file, name));
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        name, " has ", size, " bytes; at most ", max_bytes, " are read"));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read", name);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace recurve
