#include "server/access/watched_files.h"

#include <sys/stat.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve::server {

WatchedFiles::WatchedFiles(std::vector<std::string> paths)
    : paths_(std::move(paths)), seen_(Look()) {}

bool WatchedFiles::Changed() {
  std::string now = Look();
  return std::exchange(seen_, now) != now;
}

std::string WatchedFiles::Look() const {
  std::string looks;
  for (const std::string& path : paths_) {
    struct stat file = {};
    if (stat(path.c_str(), &file) != 0) file = {};
    // ctime: a file with an old time of writing may be renamed over another.
    absl::StrAppend(&looks, file.st_dev, " ", file.st_ino, " ", file.st_size,
                    " ", file.st_mtim.tv_sec, ".", file.st_mtim.tv_nsec, " ",
                    file.st_ctim.tv_sec, ".", file.st_ctim.tv_nsec, "\n");
  }
  return looks;
}

}  // namespace recurve::server
