#include "engine/model/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// The system's word on the last call that failed. Codes by what the caller
// should do next; ErrnoToStatus knows most of them.
absl::Status SystemError(absl::string_view action, absl::string_view path) {
  const int code = errno;
  absl::Status status =
      absl::ErrnoToStatus(code, absl::StrCat("cannot ", action, " ", path));
  if (code == EIO) return absl::DataLossError(status.message());
  if (code == EDQUOT) return absl::ResourceExhaustedError(status.message());
  if (status.code() == absl::StatusCode::kUnknown) {
    return absl::UnavailableError(status.message());
  }
  return status;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  // Once; 0 or -1 as close(2).
  int Close() { return close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Without O_NONBLOCK, opening a named pipe waits for its writer.
int OpenForReading(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

absl::StatusOr<int64_t> RegularFileSize(int fd, const std::string& path) {
  struct stat info;
  if (fstat(fd, &info) != 0) return SystemError("look at", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file"));
  }
  return static_cast<int64_t>(info.st_size);
}

absl::Status WriteAll(int fd, absl::string_view bytes,
                      const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(const std::string& path,
                          absl::Span<const absl::string_view> pieces) {
  FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return SystemError("create", path);
  for (const absl::string_view piece : pieces) {
    RETURN_IF_ERROR(WriteAll(file.get(), piece, path));
  }
  if (fsync(file.get()) != 0) return SystemError("sync", path);
  if (file.Close() != 0) return SystemError("close", path);
  return absl::OkStatus();
}

// Not taken by another thread, nor by another process that still runs.
std::string NameAside(const std::string& path) {
  static std::atomic<int64_t> counter{0};
  return absl::StrCat(path, ".", getpid(), "-", counter++, ".tmp");
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  FileDescriptor file(OpenForReading(path));
  if (file.get() < 0) return SystemError("open", path);
  ASSIGN_OR_RETURN(const int64_t size, RegularFileSize(file.get(), path));
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, " has ", size, " bytes; at most ", max_bytes, " are read"));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read", path);
    if (count == 0) break;  // it became shorter meanwhile
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

absl::Status SyncDirectory(const std::string& path) {
  FileDescriptor directory(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return SystemError("open", path);
  if (fsync(directory.get()) != 0) return SystemError("sync", path);
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces) {
  const std::string aside = NameAside(path);
  absl::Status status = WriteAndSync(aside, pieces);
  if (status.ok() && rename(aside.c_str(), path.c_str()) != 0) {
    status = SystemError("rename to", path);
  }
  if (!status.ok()) {
    unlink(aside.c_str());
    return status;
  }
  return SyncDirectory(DirectoryOf(path));
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  FileDescriptor file(OpenForReading(path));
  if (file.get() < 0) return SystemError("open", path);
  ASSIGN_OR_RETURN(const int64_t size, RegularFileSize(file.get(), path));
  MappedFile mapped;
  if (size == 0) return mapped;  // mmap refuses empty ranges
  void* data = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE,
                    file.get(), 0);
  if (data == MAP_FAILED) return SystemError("map", path);
  mapped.data_ = static_cast<const uint8_t*>(data);
  mapped.size_ = static_cast<size_t>(size);
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace recurve
