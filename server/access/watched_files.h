// Notices that files have changed on disk.
#ifndef RECURVE_SERVER_ACCESS_WATCHED_FILES_H_
#define RECURVE_SERVER_ACCESS_WATCHED_FILES_H_

#include <string>
#include <vector>

namespace recurve::server {

// By what stat() says: device, inode, size and time of change to the
// nanosecond; a symbolic link is followed, so that a renamed link (as
// Kubernetes mounts secrets) counts. Not thread-safe.
class WatchedFiles {
 public:
  explicit WatchedFiles(std::vector<std::string> paths);

  // Whether any was replaced, written, removed or made since the last call, or
  // since the beginning.
  bool Changed();

 private:
  std::string Look() const;

  const std::vector<std::string> paths_;
  std::string seen_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_WATCHED_FILES_H_
