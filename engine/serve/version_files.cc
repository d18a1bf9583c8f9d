#include "engine/serve/version_files.h"

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/file.h"
#include "engine/base/sha256.h"
#include "engine/data/vocabulary.h"
#include "engine/model/library_export.h"
#include "engine/model/library_import.h"
#include "engine/model/safetensors.h"
#include "google/protobuf/text_format.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"

namespace recurve {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxSmallFileBytes = int64_t{64} << 20;
constexpr int64_t kMaxVocabularyBytes = int64_t{4} << 30;

std::string Path(const std::string& directory, const char* file) {
  return absl::StrCat(directory, "/", file);
}

absl::Status Damaged(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ": ", why));
}

// Whatever is wrong with a file that must be there is damage.
absl::StatusOr<std::string> ReadOwnFile(const std::string& path,
                                        int64_t max_bytes) {
  auto bytes = ReadFile(path, max_bytes);
  if (bytes.ok()) return bytes;
  return Damaged(path, bytes.status().message());
}

// --- LibraryNames as JSON ---

Json NamesToJson(const LibraryNames& names) {
  Json blocks = Json::array();
  for (const BlockNames& block : names.blocks) {
    blocks.push_back(
        {{"prefix", block.prefix}, {"style", static_cast<int>(block.style)}});
  }
  return {{"embedding", names.embedding},
          {"output", names.output},
          {"tied_weight_repeated", names.tied_weight_repeated},
          {"blocks", std::move(blocks)}};
}

LibraryNames NamesFromJson(const Json& json) {
  LibraryNames names;
  names.embedding = json.at("embedding").get<std::string>();
  names.output = json.at("output").get<std::string>();
  names.tied_weight_repeated = json.at("tied_weight_repeated").get<bool>();
  for (const Json& block : json.at("blocks")) {
    names.blocks.push_back(
        {block.at("prefix").get<std::string>(),
         static_cast<KeyStyle>(block.at("style").get<int>())});
  }
  return names;
}

// --- Writing ---

absl::Status WriteWeights(const ParameterBuffer& parameters,
                          ModelVersion& version) {
  const std::string path = Path(version.directory, kWeightsFile);
  const FloatTensorMap tensors =
      ExportLibrary(*version.model, parameters, version.names);
  RETURN_IF_ERROR(
      WriteSafetensors(path, Views(tensors), ExportMetadata(version.names)));
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  version.sha256 =
      Sha256Hex({reinterpret_cast<const char*>(file.bytes().data()),
                 file.bytes().size()});
  return absl::OkStatus();
}

// Writes the file and returns its checksum. What would be too large to be read
// back is not written.
absl::StatusOr<std::string> WriteText(const std::string& path,
                                      const std::string& text,
                                      int64_t max_bytes) {
  if (static_cast<int64_t>(text.size()) > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("names and ids of the model version make a file of ",
                     text.size(), " bytes; the limit is ", max_bytes));
  }
  const absl::string_view pieces[] = {text};
  RETURN_IF_ERROR(WriteFileAtomically(path, pieces));
  return Sha256Hex(text);
}

Json Metadata(const ModelVersion& version, Json checksums) {
  return {{"format", 1},
          {"create_time_ns", absl::ToUnixNanos(version.create_time)},
          {"source", version.source},
          {"request_id", version.request_id},
          {"names", NamesToJson(version.names)},
          {"sha256", std::move(checksums)}};
}

// --- Reading ---

// `bytes`, unless their checksum is not the one recorded.
absl::StatusOr<std::string> ReadChecked(const std::string& directory,
                                        const char* file, int64_t max_bytes,
                                        const Json& checksums) {
  const std::string path = Path(directory, file);
  ASSIGN_OR_RETURN(std::string bytes, ReadOwnFile(path, max_bytes));
  if (Sha256Hex(bytes) != checksums.at(file).get<std::string>()) {
    return Damaged(path, "the checksum is not the one recorded");
  }
  return bytes;
}

absl::Status ReadConfig(const std::string& directory, const Json& checksums,
                        ModelVersion& version) {
  ASSIGN_OR_RETURN(
      const std::string text,
      ReadChecked(directory, kConfigFile, kMaxSmallFileBytes, checksums));
  v1::ModelConfig config;
  const std::string path = Path(directory, kConfigFile);
  if (!google::protobuf::TextFormat::ParseFromString(text, &config)) {
    return Damaged(path, "is not a ModelConfig");
  }
  auto model = Model::Create(config);
  if (!model.ok()) return Damaged(path, model.status().message());
  version.model = *std::move(model);
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const std::string& directory, const Json& checksums,
                            ModelVersion& version) {
  if (!checksums.contains(kVocabularyFile)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const std::string text,
      ReadChecked(directory, kVocabularyFile, kMaxVocabularyBytes, checksums));
  auto vocabulary = Vocabulary::FromJson(text);
  if (!vocabulary.ok()) {
    return Damaged(Path(directory, kVocabularyFile),
                   vocabulary.status().message());
  }
  version.vocabulary = vocabulary->tokens();
  return absl::OkStatus();
}

// Throws Json::exception for a field that is not there or of another type.
absl::Status ReadAll(const std::string& directory, const Json& metadata,
                     ModelVersion& version) {
  if (metadata.at("format").get<int>() != 1) {
    return Damaged(Path(directory, kMetadataFile),
                   "is of a format that this server does not know");
  }
  version.create_time =
      absl::FromUnixNanos(metadata.at("create_time_ns").get<int64_t>());
  version.source = metadata.at("source").get<std::string>();
  version.request_id = metadata.at("request_id").get<std::string>();
  version.names = NamesFromJson(metadata.at("names"));
  const Json& checksums = metadata.at("sha256");
  version.sha256 = checksums.at(kWeightsFile).get<std::string>();
  RETURN_IF_ERROR(ReadConfig(directory, checksums, version));
  return ReadVocabulary(directory, checksums, version);
}

}  // namespace

absl::Status WriteVersionFiles(const ParameterBuffer& parameters,
                               ModelVersion& version) {
  RETURN_IF_ERROR(WriteWeights(parameters, version));
  Json checksums = {{kWeightsFile, version.sha256}};

  std::string config;
  google::protobuf::TextFormat::PrintToString(version.model->config(), &config);
  ASSIGN_OR_RETURN(checksums[kConfigFile],
                   WriteText(Path(version.directory, kConfigFile), config,
                             kMaxSmallFileBytes));
  if (!version.vocabulary.empty()) {
    ASSIGN_OR_RETURN(const Vocabulary vocabulary,
                     Vocabulary::Create(version.vocabulary));
    ASSIGN_OR_RETURN(checksums[kVocabularyFile],
                     WriteText(Path(version.directory, kVocabularyFile),
                               vocabulary.ToJson(), kMaxVocabularyBytes));
  }
  const std::string metadata =
      Metadata(version, std::move(checksums))
          .dump(2, ' ', false, Json::error_handler_t::replace);
  return WriteText(Path(version.directory, kMetadataFile), metadata,
                   kMaxSmallFileBytes)
      .status();
}

absl::StatusOr<std::shared_ptr<ModelVersion>> ReadVersionFiles(
    const std::string& directory) {
  auto version = std::make_shared<ModelVersion>();
  version->directory = directory;
  const std::string path = Path(directory, kMetadataFile);
  ASSIGN_OR_RETURN(const std::string text,
                   ReadOwnFile(path, kMaxSmallFileBytes));
  try {
    RETURN_IF_ERROR(ReadAll(directory, Json::parse(text), *version));
  } catch (const Json::exception& e) {
    return Damaged(path, e.what());
  }
  RETURN_IF_ERROR(CheckWeightsFile(*version));
  return version;
}

absl::Status CheckWeightsFile(const ModelVersion& version) {
  const std::string path = Path(version.directory, kWeightsFile);
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return Damaged(path, "is not there, or may not be read");
}

absl::StatusOr<ParameterBuffer> ReadParameters(const ModelVersion& version) {
  const std::string path = Path(version.directory, kWeightsFile);
  auto file = MappedFile::Open(path);
  if (!file.ok()) return Damaged(path, file.status().message());
  const absl::Span<const uint8_t> bytes = file->bytes();
  if (Sha256Hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) !=
      version.sha256) {
    return Damaged(path, "the checksum is not the one recorded");
  }
  auto tensors = Safetensors::Parse(bytes);
  if (!tensors.ok()) return Damaged(path, tensors.status().message());
  auto imported = ImportLibrary(*version.model, tensors->tensors(),
                                OptionsFromMetadata(tensors->metadata()));
  if (!imported.ok()) return Damaged(path, imported.status().message());
  return std::move(imported->parameters);
}

}  // namespace recurve
