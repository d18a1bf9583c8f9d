// Files on their way in and out.
#ifndef RECURVE_SERVER_FILE_STREAM_H_
#define RECURVE_SERVER_FILE_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/append_file.h"
#include "engine/base/file_descriptor.h"
#include "engine/serve/model_version.h"

namespace recurve::server {

// A file without a name that anyone else uses, removed on destruction.
class TemporaryFile {
 public:
  static absl::StatusOr<TemporaryFile> Create(const std::string& directory);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  // ResourceExhausted for a full disk.
  absl::Status Append(absl::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  TemporaryFile(std::string path, AppendFile file);

  std::string path_;  // empty: moved away
  AppendFile file_;
};

// The files of a model version, in pieces. Opened all at once, so that a
// deletion in the middle does no harm.
class VersionFileStream {
 public:
  static absl::StatusOr<std::unique_ptr<VersionFileStream>> Open(
      const ModelVersion& version);

  // The next piece; `file_name` is set at the beginning of each file. False
  // after the last.
  absl::StatusOr<bool> Next(std::string* file_name, std::string* chunk);

 private:
  struct File {
    std::string name;
    FileDescriptor file;
  };

  std::vector<File> files_;
  size_t current_ = 0;
  int64_t offset_ = 0;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_FILE_STREAM_H_
