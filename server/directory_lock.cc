#include "server/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/directory.h"
#include "engine/base/file_calls.h"
#include "kernels/status.h"

namespace recurve::server {

absl::StatusOr<DirectoryLock> DirectoryLock::Take(const std::string& path) {
  RETURN_IF_ERROR(CreateDirectories(path));
  const std::string name = absl::StrCat(path, "/LOCK");
  FileDescriptor file(
      file_calls().Open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (file.get() < 0) return SystemError("open", name);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError("lock", name);
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is in use by another server"));
  }
  return DirectoryLock(path, std::move(file));
}

DirectoryLock::DirectoryLock(std::string path, FileDescriptor file)
    : path_(std::move(path)), file_(std::move(file)) {}

}  // namespace recurve::server
