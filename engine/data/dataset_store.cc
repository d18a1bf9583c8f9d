#include "engine/data/dataset_store.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/append_file.h"
#include "engine/base/directory.h"
#include "engine/base/file.h"
#include "engine/base/resource_id.h"
#include "engine/base/sha256.h"
#include "engine/data/rooted_file.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"

namespace recurve {
namespace {

constexpr absl::string_view kPrefix = "datasets/";
constexpr int64_t kMaxMetadataBytes = 1 << 16;

std::string DataPath(const std::string& folder) { return folder + "/data"; }
std::string MetadataPath(const std::string& folder) {
  return folder + "/metadata.json";
}

std::string ToJson(const DatasetInfo& info) {
  return nlohmann::json{{"create_time", absl::FormatTime(info.create_time)},
                        {"size_bytes", info.size_bytes},
                        {"sha256", info.sha256}}
      .dump(2);
}

absl::StatusOr<DatasetInfo> FromJson(const std::string& id,
                                     const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  DatasetInfo info;
  info.id = id;
  try {
    info.size_bytes = json.at("size_bytes").get<int64_t>();
    info.sha256 = json.at("sha256").get<std::string>();
    if (absl::ParseTime(absl::RFC3339_full,
                        json.at("create_time").get<std::string>(),
                        &info.create_time, nullptr)) {
      return info;
    }
  } catch (const nlohmann::json::exception&) {
  }
  return absl::DataLossError(
      absl::StrCat("datasets/", id, ": its metadata are damaged"));
}

absl::StatusOr<DatasetInfo> LoadInfo(const std::string& folder,
                                     const std::string& id) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(MetadataPath(folder), kMaxMetadataBytes));
  ASSIGN_OR_RETURN(DatasetInfo info, FromJson(id, text));
  std::error_code error;
  const auto size = std::filesystem::file_size(DataPath(folder), error);
  if (error || static_cast<int64_t>(size) != info.size_bytes) {
    return absl::DataLossError(
        absl::StrCat("datasets/", id, ": its file is not the ", info.size_bytes,
                     " bytes it should be"));
  }
  return info;
}

absl::StatusOr<std::string> ParseSha256(absl::string_view text) {
  const bool good =
      text.empty() ||
      (text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
         return absl::ascii_isxdigit(c);
       }));
  if (!good) {
    return absl::InvalidArgumentError(
        "sha256: must be 64 hexadecimal digits, or empty");
  }
  return absl::AsciiStrToLower(text);
}

absl::Status NotFound(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("datasets/", id, " not found"));
}

absl::Status Taken(absl::string_view id) {
  return absl::AlreadyExistsError(
      absl::StrCat("datasets/", id, " is there already, with other bytes"));
}

}  // namespace

class DatasetStore::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  absl::Status Load();
  absl::StatusOr<std::unique_ptr<DatasetUpload>> StartUpload(
      absl::string_view id, absl::string_view expected_sha256);
  absl::StatusOr<DatasetInfo> Get(absl::string_view id) const;
  absl::StatusOr<DatasetPage> List(int page_size,
                                   absl::string_view page_token) const;
  absl::Status Delete(absl::string_view id);
  absl::StatusOr<std::string> Read(const v1::DataSource& source) const;

 private:
  class Upload;

  std::string Folder(absl::string_view name) const {
    return absl::StrCat(options_.directory, "/", name);
  }
  absl::StatusOr<std::unique_ptr<DatasetUpload>> CreateUpload(DatasetInfo info);
  absl::Status ReserveUpload(const DatasetInfo& expected);
  void ReleaseUpload();
  absl::StatusOr<DatasetInfo> Publish(AsideDirectory& folder,
                                      const DatasetInfo& info);
  absl::StatusOr<std::string> ReadStored(absl::string_view name) const;

  const Options options_;
  mutable absl::Mutex mutex_;
  // One that is damaged is its error.
  std::map<std::string, absl::StatusOr<DatasetInfo>, std::less<>> datasets_
      ABSL_GUARDED_BY(mutex_);
  int uploads_ ABSL_GUARDED_BY(mutex_) = 0;
};

class DatasetStore::Impl::Upload final : public DatasetUpload {
 public:
  // `info` has the id and the expected sha256.
  Upload(Impl& store, AsideDirectory folder, AppendFile file, DatasetInfo info)
      : store_(store),
        folder_(std::move(folder)),
        file_(std::move(file)),
        info_(std::move(info)) {}
  ~Upload() override { store_.ReleaseUpload(); }

  absl::Status Append(absl::string_view bytes) override {
    if (status_.ok()) status_ = Write(bytes);
    return status_;
  }

  absl::StatusOr<DatasetInfo> Commit() override {
    RETURN_IF_ERROR(status_);
    status_ = absl::FailedPreconditionError("the upload has ended");
    RETURN_IF_ERROR(Finish());
    return store_.Publish(folder_, info_);
  }

 private:
  absl::Status Write(absl::string_view bytes) {
    const int64_t limit = store_.options_.max_upload_bytes;
    info_.size_bytes += static_cast<int64_t>(bytes.size());
    if (info_.size_bytes > limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat("datasets/", info_.id, ": more than ", limit, " bytes"));
    }
    sha256_.Update(bytes);
    return file_.Append(bytes);
  }

  absl::Status Finish() {
    RETURN_IF_ERROR(file_.Finish());
    const std::string sha256 = sha256_.Finish();
    if (!info_.sha256.empty() && info_.sha256 != sha256) {
      return absl::DataLossError(absl::StrCat(
          "datasets/", info_.id, ": the bytes that came have sha256 ", sha256,
          ", not ", info_.sha256));
    }
    info_.sha256 = sha256;
    info_.create_time = absl::Now();
    // Syncs the folder, and so the data's name too.
    return WriteFileAtomically(MetadataPath(folder_.path()), {ToJson(info_)});
  }

  Impl& store_;
  AsideDirectory folder_;
  AppendFile file_;
  Sha256 sha256_;
  DatasetInfo info_;
  absl::Status status_;  // the first error, which every later call returns
};

absl::Status DatasetStore::Impl::Load() {
  RETURN_IF_ERROR(CreateDirectories(options_.directory));
  SweepAside(options_.directory);
  ASSIGN_OR_RETURN(const auto names, ListDirectory(options_.directory));
  absl::MutexLock lock(&mutex_);
  for (const std::string& name : names) {
    if (name[0] == '.') continue;
    datasets_.emplace(name, LoadInfo(Folder(name), name));
  }
  return SyncDirectory(options_.directory);
}

absl::StatusOr<std::unique_ptr<DatasetUpload>> DatasetStore::Impl::StartUpload(
    absl::string_view id, absl::string_view expected_sha256) {
  RETURN_IF_ERROR(CheckResourceId(id, "dataset_id"));
  DatasetInfo info;
  info.id = std::string(id);
  ASSIGN_OR_RETURN(info.sha256, ParseSha256(expected_sha256));
  RETURN_IF_ERROR(ReserveUpload(info));
  auto upload = CreateUpload(std::move(info));
  if (!upload.ok()) ReleaseUpload();
  return upload;
}

absl::StatusOr<std::unique_ptr<DatasetUpload>> DatasetStore::Impl::CreateUpload(
    DatasetInfo info) {
  ASSIGN_OR_RETURN(AsideDirectory folder,
                   AsideDirectory::Create(Folder(info.id)));
  ASSIGN_OR_RETURN(AppendFile file,
                   AppendFile::Create(DataPath(folder.path())));
  return std::make_unique<Upload>(*this, std::move(folder), std::move(file),
                                  std::move(info));
}

absl::Status DatasetStore::Impl::ReserveUpload(const DatasetInfo& expected) {
  absl::MutexLock lock(&mutex_);
  const auto at = datasets_.find(expected.id);
  if (at != datasets_.end() && !expected.sha256.empty() &&
      (!at->second.ok() || at->second->sha256 != expected.sha256)) {
    return Taken(expected.id);
  }
  if (uploads_ >= options_.max_uploads) {
    return absl::ResourceExhaustedError(absl::StrCat(
        uploads_, " uploads are going on, the most at once; try again later"));
  }
  ++uploads_;
  return absl::OkStatus();
}

void DatasetStore::Impl::ReleaseUpload() {
  absl::MutexLock lock(&mutex_);
  --uploads_;
}

absl::StatusOr<DatasetInfo> DatasetStore::Impl::Publish(
    AsideDirectory& folder, const DatasetInfo& info) {
  absl::MutexLock lock(&mutex_);
  if (const auto at = datasets_.find(info.id); at != datasets_.end()) {
    const absl::StatusOr<DatasetInfo>& there = at->second;
    if (there.ok() && there->sha256 == info.sha256) return there;
    return Taken(info.id);
  }
  RETURN_IF_ERROR(folder.Publish());
  datasets_.emplace(info.id, info);
  return info;
}

absl::StatusOr<DatasetInfo> DatasetStore::Impl::Get(
    absl::string_view id) const {
  absl::MutexLock lock(&mutex_);
  const auto at = datasets_.find(id);
  if (at == datasets_.end()) return NotFound(id);
  return at->second;
}

absl::StatusOr<DatasetPage> DatasetStore::Impl::List(
    int page_size, absl::string_view page_token) const {
  if (page_size < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: ", page_size, " is negative"));
  }
  const int limit = page_size == 0 ? 100 : std::min(page_size, kMaxPageSize);
  DatasetPage page;
  absl::MutexLock lock(&mutex_);
  // The token is the last id of the page before.
  for (auto at = datasets_.upper_bound(page_token); at != datasets_.end();
       ++at) {
    if (!at->second.ok()) continue;
    if (static_cast<int>(page.datasets.size()) == limit) {
      page.next_page_token = page.datasets.back().id;
      break;
    }
    page.datasets.push_back(*at->second);
  }
  return page;
}

absl::Status DatasetStore::Impl::Delete(absl::string_view id) {
  std::string aside;
  {
    absl::MutexLock lock(&mutex_);
    const auto at = datasets_.find(id);
    if (at == datasets_.end()) return NotFound(id);
    ASSIGN_OR_RETURN(aside, MoveAside(Folder(id)));
    datasets_.erase(at);
  }
  RemoveTree(aside).IgnoreError();  // swept at the next start
  return absl::OkStatus();
}

absl::StatusOr<std::string> DatasetStore::Impl::Read(
    const v1::DataSource& source) const {
  switch (source.source_case()) {
    case v1::DataSource::kDataset:
      return ReadStored(source.dataset());
    case v1::DataSource::kServerPath:
      if (options_.data_root.empty()) {
        return absl::PermissionDeniedError(
            "server_path: this server has no data root");
      }
      return ReadFileBeneath(options_.data_root, source.server_path(),
                             options_.max_read_bytes);
    case v1::DataSource::kLocalFile:
      return absl::InvalidArgumentError(
          "local_file: for the command line, which uploads the file; a server "
          "reads dataset or server_path");
    case v1::DataSource::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "data source: one of dataset and server_path must be set");
}

absl::StatusOr<std::string> DatasetStore::Impl::ReadStored(
    absl::string_view name) const {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, kPrefix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset: \"", name, "\" is not datasets/NAME"));
  }
  ASSIGN_OR_RETURN(const DatasetInfo info, Get(id));
  ASSIGN_OR_RETURN(std::string bytes,
                   ReadFile(DataPath(Folder(id)), options_.max_read_bytes));
  if (Sha256Hex(bytes) != info.sha256) {
    return absl::DataLossError(
        absl::StrCat(name, ": its bytes have changed since they were stored"));
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<DatasetStore>> DatasetStore::Open(
    Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  RETURN_IF_ERROR(impl->Load());
  return absl::WrapUnique(new DatasetStore(std::move(impl)));
}

DatasetStore::DatasetStore(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
DatasetStore::~DatasetStore() = default;

absl::StatusOr<std::unique_ptr<DatasetUpload>> DatasetStore::StartUpload(
    absl::string_view id, absl::string_view expected_sha256) {
  return impl_->StartUpload(id, expected_sha256);
}
absl::StatusOr<DatasetInfo> DatasetStore::Get(absl::string_view id) const {
  return impl_->Get(id);
}
absl::StatusOr<DatasetPage> DatasetStore::List(
    int page_size, absl::string_view page_token) const {
  return impl_->List(page_size, page_token);
}
absl::Status DatasetStore::Delete(absl::string_view id) {
  return impl_->Delete(id);
}
absl::StatusOr<std::string> DatasetStore::Read(
    const v1::DataSource& source) const {
  return impl_->Read(source);
}

}  // namespace recurve
