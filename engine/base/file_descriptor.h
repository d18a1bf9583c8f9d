// Open files, and the system's errors as a Status.
#ifndef RECURVE_ENGINE_BASE_FILE_DESCRIPTOR_H_
#define RECURVE_ENGINE_BASE_FILE_DESCRIPTOR_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recurve {

// "cannot ACTION NAME: the system's words", of the errno that a call has just
// left. Codes by what the caller should do next: ResourceExhausted for a full
// disk or quota, DataLoss for a disk that fails (EIO), NotFound,
// PermissionDenied and so on, Unavailable where nothing is known.
absl::Status SystemError(absl::string_view action, absl::string_view name);

// Owns a descriptor; -1 is none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }

  // All the bytes, however many calls that takes.
  absl::Status Write(absl::string_view bytes, absl::string_view name);
  // Makes what was written last, then closes. Once, at the end.
  absl::Status Finish(absl::string_view name);

 private:
  int fd_;
};

// The bytes of the open file; fewer than it had if it is cut meanwhile.
// InvalidArgument for what is not a regular file, ResourceExhausted for more
// than max_bytes. Errors speak of `name`.
absl::StatusOr<std::string> ReadRegularFile(const FileDescriptor& file,
                                            int64_t max_bytes,
                                            absl::string_view name);
// InvalidArgument for what is not a regular file.
absl::StatusOr<int64_t> RegularFileSize(const FileDescriptor& file,
                                        absl::string_view name);

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_FILE_DESCRIPTOR_H_
