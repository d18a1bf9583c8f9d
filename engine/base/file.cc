#include "engine/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/directory.h"
#include "engine/base/file_calls.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::StatusOr<FileDescriptor> OpenForReading(const std::string& path) {
  // Without O_NONBLOCK, opening a named pipe waits for its writer.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return SystemError("open", path);
  return file;
}

absl::Status WriteAndSync(const std::string& path,
                          absl::Span<const absl::string_view> pieces) {
  FileDescriptor file(file_calls().Open(
      path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return SystemError("create", path);
  for (const absl::string_view piece : pieces) {
    RETURN_IF_ERROR(file.Write(piece, path));
  }
  return file.Finish(path);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenForReading(path));
  return ReadRegularFile(file, max_bytes, path);
}

absl::StatusOr<ReadableFile> ReadableFile::Open(const std::string& path) {
  ReadableFile opened;
  opened.path_ = path;
  ASSIGN_OR_RETURN(opened.file_, OpenForReading(path));
  ASSIGN_OR_RETURN(opened.size_, RegularFileSize(opened.file_, path));
  return opened;
}

absl::Status ReadableFile::ReadAt(int64_t offset,
                                  absl::Span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count =
        pread(file_.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError("read", path_);
    if (count == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, " ends early, at byte ", offset));
    }
    bytes.remove_prefix(static_cast<size_t>(count));
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces) {
  const std::string aside = AsidePath(path);
  absl::Status status = WriteAndSync(aside, pieces);
  if (status.ok() && file_calls().Rename(aside.c_str(), path.c_str()) != 0) {
    status = SystemError("rename to", path);
  }
  if (!status.ok()) {
    file_calls().Unlink(aside.c_str());
    return status;
  }
  return SyncDirectory(DirectoryOf(path));
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenForReading(path));
  ASSIGN_OR_RETURN(const int64_t size, RegularFileSize(file, path));
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
