#include "engine/data/rooted_file.h"

#include <fcntl.h>

#include <cerrno>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/file_descriptor.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// What errors call it.
std::string Name(absl::string_view path) {
  return absl::StrCat("server_path \"", path, "\"");
}

absl::StatusOr<std::vector<std::string>> SplitPath(absl::string_view path) {
  std::vector<std::string> steps = absl::StrSplit(path, '/');
  for (const std::string& step : steps) {
    if (step.empty() || step == "." || step == ".." ||
        step.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          Name(path),
          ": must be a path beneath the data root, without `.` and `..`"));
    }
  }
  return steps;
}

absl::Status OpenError(absl::string_view path, absl::string_view step) {
  // What O_NOFOLLOW says of a link, and O_DIRECTORY of a file.
  if (errno == ELOOP || errno == ENOTDIR) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(path), ": \"", step, "\" is a symbolic link or not a folder"));
  }
  return SystemError("open", Name(path));
}

absl::StatusOr<FileDescriptor> OpenBeneath(const std::string& root,
                                           absl::string_view path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> steps, SplitPath(path));
  FileDescriptor at(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (at.get() < 0) return SystemError("open", "the data root");
  for (size_t i = 0; i < steps.size(); ++i) {
    // O_NONBLOCK: opening a pipe must not wait for a writer.
    const int kind =
        i + 1 < steps.size() ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
    at = FileDescriptor(
        openat(at.get(), steps[i].c_str(), kind | O_NOFOLLOW | O_CLOEXEC));
    if (at.get() < 0) return OpenError(path, steps[i]);
  }
  return at;
}

}  // namespace

absl::StatusOr<std::string> ReadFileBeneath(const std::string& root,
                                            absl::string_view path,
                                            int64_t max_bytes) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenBeneath(root, path));
  return ReadRegularFile(file, max_bytes, Name(path));
}

}  // namespace recurve
