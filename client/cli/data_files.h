// Local data files on their way to the server.
#ifndef RECURVE_CLIENT_CLI_DATA_FILES_H_
#define RECURVE_CLIENT_CLI_DATA_FILES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/client.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve::cli {

struct UploadedFile {
  std::string
      dataset;  // datasets/upload-SHA256, so the same bytes are sent once
  bool existed = false;  // on the server before
};
absl::StatusOr<UploadedFile> UploadFile(Client& client,
                                        const std::string& path);

// Calls `use` with the dataset of a file, uploaded for it: afterwards it is
// deleted, unless it was there before.
absl::Status WithUploadedFile(
    Client& client, const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& dataset)> use);

// A spec with its local files (relative to the spec's folder) uploaded and
// replaced by datasets.
absl::StatusOr<v1::TrainSpec> ReadTrainSpec(Client& client,
                                            const std::string& path);

// .jsonl and .npy by their endings, everything else as text: by the model's
// vocabulary, or bytes if it has none.
v1::DataFormat FormatOfFile(absl::string_view path,
                            const v1::ModelVersion& version);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_DATA_FILES_H_
