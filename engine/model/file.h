// Files of bytes: whole reads, read-only mappings, and writes that are on disk
// when they return. The only place that writes files of the engine.
#ifndef RECURVE_ENGINE_MODEL_FILE_H_
#define RECURVE_ENGINE_MODEL_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace recurve {

// NotFound, PermissionDenied, ResourceExhausted (disk full, file longer than
// max_bytes) or Unavailable, with the path and the system's words.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes);

// Writes the pieces, one after another, to a file beside `path`, syncs it,
// renames it to `path` and syncs the folder: after a crash `path` holds the old
// bytes or the new ones, whole. On an error the file aside is removed.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces);

// Makes names created, renamed or removed in the folder last.
absl::Status SyncDirectory(const std::string& path);

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

#endif  // RECURVE_ENGINE_MODEL_FILE_H_
