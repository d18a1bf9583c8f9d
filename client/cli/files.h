// Files that subcommands read and write. Relative paths start where the user
// is: under `bazel run` in BUILD_WORKING_DIRECTORY.
#ifndef RECURVE_CLIENT_CLI_FILES_H_
#define RECURVE_CLIENT_CLI_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace recurve::cli {

std::string UserPath(absl::string_view path);

// NotFound or PermissionDenied name the path.
absl::StatusOr<std::string> ReadFile(const std::string& path);
absl::Status MakeDirectory(const std::string& path);

// InvalidArgument with line and column for what is not a `message`; unknown
// fields are errors.
absl::Status ReadTextProto(const std::string& path,
                           google::protobuf::Message& message);

// A JSON array of strings, index = token id.
absl::StatusOr<std::vector<std::string>> ReadVocabulary(
    const std::string& path);

// A float32 array file (.npy, version 1, C order, [N, I]) as packed bytes.
struct FeatureFile {
  int64_t rows = 0;
  int64_t columns = 0;
  std::string bytes;  // float32, little-endian
};
absl::StatusOr<FeatureFile> ReadFeatures(const std::string& path);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_FILES_H_
