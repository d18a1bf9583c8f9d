// Files of bytes: whole reads, reads of parts, read-only mappings, and writes
// that are on disk when they return.
#ifndef RECURVE_ENGINE_BASE_FILE_H_
#define RECURVE_ENGINE_BASE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/file_descriptor.h"

namespace recurve {

// NotFound, PermissionDenied, ResourceExhausted (file longer than max_bytes) or
// Unavailable, with the path and the system's words.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);

// Writes the pieces, one after another, to a file aside (directory.h), syncs
// it, renames it to `path` and syncs the folder: after a crash or an error
// `path` holds the old bytes or the new ones, whole. On an error the file aside
// is removed; what a crash leaves of it SweepAside removes.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces);

// A file to read parts of. Where the disk fails that is an error, not the end
// of the process as with a mapping.
class ReadableFile {
 public:
  // Errors as ReadFile's; InvalidArgument for what is not a regular file.
  static absl::StatusOr<ReadableFile> Open(const std::string& path);

  int64_t size() const { return size_; }  // when it was opened
  // Fills `bytes` from that offset on; DataLoss where the file ends before.
  absl::Status ReadAt(int64_t offset, absl::Span<uint8_t> bytes) const;

 private:
  std::string path_;
  FileDescriptor file_;
  int64_t size_ = 0;
};

// A file's bytes as memory. The file must not be truncated while mapped; ours
// never change once they have their name.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_FILE_H_
