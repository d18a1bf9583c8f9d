// One process at a time in a folder.
#ifndef RECURVE_SERVER_DIRECTORY_LOCK_H_
#define RECURVE_SERVER_DIRECTORY_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/base/file_descriptor.h"

namespace recurve::server {

// Held until destruction, or the end of the process however it comes.
class DirectoryLock {
 public:
  // Creates the folder if need be. FailedPrecondition if another process holds
  // its lock (the file LOCK in it), SystemError's for the rest.
  static absl::StatusOr<DirectoryLock> Take(const std::string& path);
  const std::string& path() const { return path_; }

 private:
  DirectoryLock(std::string path, FileDescriptor file);

  std::string path_;
  FileDescriptor file_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_DIRECTORY_LOCK_H_
