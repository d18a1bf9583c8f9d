// What new versions of models are made of.
#ifndef RECURVE_ENGINE_SERVE_VERSION_CONTENTS_H_
#define RECURVE_ENGINE_SERVE_VERSION_CONTENTS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/library_import.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/serve/model_version.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve {

struct VersionContents {
  std::shared_ptr<const Model> model;
  ParameterBuffer parameters;
  std::vector<std::string> vocabulary;  // as long as the model's, or empty
  std::string source;  // `created`, `imported`, `jobs/...`, `trainers/...`
  // Module names in model.safetensors. Absent: those of the model's newest
  // version if it has the same config, else DefaultNames.
  std::optional<LibraryNames> names;
  // If a version of this model was made by a call with the same id, that
  // version is returned and nothing is written. Survives restarts.
  std::string request_id;
};

// InvalidArgument where the parts do not fit each other, FailedPrecondition for
// weights that are not finite.
absl::Status CheckContents(const VersionContents& contents);

// A checkpoint of the libraries to be read from `path`.
struct ImportContents {
  std::string path;
  v1::ModelConfig config;
  std::vector<std::string> vocabulary;
  ImportOptions options;
  std::string request_id;
};

// Reads it. Errors leave out the path, which is the server's own and says
// nothing to a client.
absl::StatusOr<VersionContents> ReadImport(const ImportContents& contents);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_VERSION_CONTENTS_H_
