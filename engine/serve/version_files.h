// The files of one model version in its folder:
//   model.safetensors  weights under the libraries' keys
//   config.textproto   v1.ModelConfig
//   vocabulary.json    array of strings; absent without a vocabulary
//   metadata.json      everything else, and the checksums of the above
#ifndef RECURVE_ENGINE_SERVE_VERSION_FILES_H_
#define RECURVE_ENGINE_SERVE_VERSION_FILES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/serve/model_version.h"

namespace recurve {

inline constexpr char kWeightsFile[] = "model.safetensors";
inline constexpr char kConfigFile[] = "config.textproto";
inline constexpr char kVocabularyFile[] = "vocabulary.json";
inline constexpr char kMetadataFile[] = "metadata.json";

// Writes the files into the existing folder version.directory, each on disk on
// return, and fills in version.sha256. ResourceExhausted if one would be too
// large to be read back.
absl::Status WriteVersionFiles(const ParameterBuffer& parameters,
                               ModelVersion& version);

// All but name, model_id, number, and the weights, which are only looked for.
// DataLoss names the file that is damaged or not there.
absl::StatusOr<std::shared_ptr<ModelVersion>> ReadVersionFiles(
    const std::string& directory);

// DataLoss if the file of weights is not there or may not be read.
absl::Status CheckWeightsFile(const ModelVersion& version);

// The weights in version.directory, checked against version.sha256.
absl::StatusOr<ParameterBuffer> ReadParameters(const ModelVersion& version);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_VERSION_FILES_H_
