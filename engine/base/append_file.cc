#include "engine/base/append_file.h"

#include <fcntl.h>

#include <utility>

#include "engine/base/file_calls.h"

namespace recurve {

absl::StatusOr<AppendFile> AppendFile::Create(const std::string& path) {
  FileDescriptor file(file_calls().Open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.get() < 0) return SystemError("create", path);
  return AppendFile(path, std::move(file));
}

AppendFile::AppendFile(std::string path, FileDescriptor file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::Status AppendFile::Append(absl::string_view bytes) {
  return file_.Write(bytes, path_);
}

absl::Status AppendFile::Finish() { return file_.Finish(path_); }

}  // namespace recurve
