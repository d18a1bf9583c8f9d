// A new file that grows piece by piece and is on disk once it is finished.
#ifndef RECURVE_ENGINE_BASE_APPEND_FILE_H_
#define RECURVE_ENGINE_BASE_APPEND_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/file_descriptor.h"

namespace recurve {

// Errors carry the path and the system's words; ResourceExhausted is a full
// disk. After an error the file is of no use.
class AppendFile {
 public:
  // The file must not be there yet.
  static absl::StatusOr<AppendFile> Create(const std::string& path);

  absl::Status Append(absl::string_view bytes);
  // Syncs and closes. Once, at the end; the name is durable only after the
  // folder is synced too.
  absl::Status Finish();

 private:
  AppendFile(std::string path, FileDescriptor file);

  std::string path_;
  FileDescriptor file_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_APPEND_FILE_H_
