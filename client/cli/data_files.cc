#include "client/cli/data_files.h"

#include <openssl/sha.h>

#include <algorithm>
#include <filesystem>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files.h"
#include "client/cli/vocabulary.h"

namespace recurve::cli {
namespace {

std::string Sha256(absl::string_view bytes) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

// Names end at 63 characters; 160 bits tell files apart.
std::string DatasetId(const std::string& sha256) {
  return absl::StrCat("upload-", sha256.substr(0, 40));
}

absl::Status UploadSource(Client& client, const std::string& folder,
                          v1::DataSource& source) {
  if (source.source_case() != v1::DataSource::kLocalFile) {
    return absl::OkStatus();
  }
  const auto path = std::filesystem::path(folder) / source.local_file();
  const auto uploaded = UploadFile(client, path.string());
  if (!uploaded.ok()) return uploaded.status();
  source.set_dataset(uploaded->dataset);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UploadedFile> UploadFile(Client& client,
                                        const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (!bytes.ok()) return bytes.status();
  const std::string sha256 = Sha256(*bytes);
  UploadedFile uploaded;
  uploaded.dataset = "datasets/" + DatasetId(sha256);
  const auto there = client.GetDataset(uploaded.dataset);
  uploaded.existed = there.ok() && there->sha256() == sha256;
  if (uploaded.existed) return uploaded;
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  v1::UploadDatasetRequest::Header header;
  header.set_dataset_id(DatasetId(sha256));
  header.set_sha256(sha256);
  const auto stored = client.UploadDataset(header, *bytes);
  if (!stored.ok()) return stored.status();
  return uploaded;
}

absl::Status WithUploadedFile(
    Client& client, const std::string& path,
    absl::FunctionRef<absl::Status(const std::string& dataset)> use) {
  const auto uploaded = UploadFile(client, path);
  if (!uploaded.ok()) return uploaded.status();
  absl::Status used = use(uploaded->dataset);
  if (!uploaded->existed) (void)client.DeleteDataset(uploaded->dataset);
  return used;
}

absl::StatusOr<v1::TrainSpec> ReadTrainSpec(Client& client,
                                            const std::string& path) {
  v1::TrainSpec spec;
  const absl::Status read = ReadTextProto(path, spec);
  if (!read.ok()) return read;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const absl::Status data = UploadSource(client, folder, *spec.mutable_data());
  if (!data.ok()) return data;
  if (spec.format().npy().has_targets()) {
    const absl::Status targets =
        UploadSource(client, folder,
                     *spec.mutable_format()->mutable_npy()->mutable_targets());
    if (!targets.ok()) return targets;
  }
  return spec;
}

v1::DataFormat FormatOfFile(absl::string_view path,
                            const v1::ModelVersion& version) {
  v1::DataFormat format;
  if (absl::EndsWith(path, ".jsonl")) {
    format.mutable_json_lines();
  } else if (absl::EndsWith(path, ".npy")) {
    format.mutable_npy();
  } else {
    using Text = v1::DataFormat::Text;
    const auto& words = version.vocabulary();
    format.mutable_text()->set_tokenization(
        words.empty() ? Text::BYTES
        : std::all_of(words.begin(), words.end(), IsOneCharacter)
            ? Text::CHARACTERS
            : Text::VOCABULARY);
  }
  return format;
}

}  // namespace recurve::cli
