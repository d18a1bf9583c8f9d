// Uploaded datasets on disk, and the one door to every file that training and
// evaluation read.
#ifndef RECURVE_ENGINE_DATA_DATASET_STORE_H_
#define RECURVE_ENGINE_DATA_DATASET_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/resource_id.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

struct DatasetInfo {
  std::string id;  // without "datasets/"
  absl::Time create_time;
  int64_t size_bytes = 0;
  std::string sha256;  // lower-case hexadecimal
};

struct DatasetPage {
  std::vector<DatasetInfo> datasets;  // by id, ascending
  std::string next_page_token;        // empty: that was all
};

// A file being uploaded. Destroyed before Commit, it leaves nothing behind.
// Used by one thread at a time; must not outlive the store.
class DatasetUpload {
 public:
  virtual ~DatasetUpload() = default;
  // ResourceExhausted beyond the size limit or on a full disk; the upload is
  // then dead.
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Makes the dataset durable, then visible. DataLoss if the expected sha256
  // differs; AlreadyExists if the name is taken by other bytes. Where it is
  // taken by the same bytes, that dataset is returned. Once.
  virtual absl::StatusOr<DatasetInfo> Commit() = 0;
};

// Thread-safe. A dataset is a folder `directory/ID` with its bytes and its
// metadata, written aside, fsynced and renamed: there whole or not at all.
class DatasetStore {
 public:
  struct Options {
    std::string directory;  // created if absent; owned by this store alone
    // server_path is resolved beneath this folder; empty: server_path is
    // refused.
    std::string data_root;
    int64_t max_upload_bytes = int64_t{64} << 30;
    // Files are read whole into memory; larger ones are refused.
    int64_t max_read_bytes = int64_t{8} << 30;
    int max_uploads = 32;  // at once
  };
  static constexpr int kMaxPageSize = 1000;  // page_size 0 means 100

  // Sweeps what an interrupted upload or deletion left.
  static absl::StatusOr<std::unique_ptr<DatasetStore>> Open(Options options);
  ~DatasetStore();

  // `expected_sha256` may be empty. InvalidArgument for a bad id or checksum,
  // AlreadyExists where it is clear at once, ResourceExhausted beyond
  // max_uploads.
  absl::StatusOr<std::unique_ptr<DatasetUpload>> StartUpload(
      absl::string_view id, absl::string_view expected_sha256);
  absl::StatusOr<DatasetInfo> Get(absl::string_view id) const;
  absl::StatusOr<DatasetPage> List(int page_size,
                                   absl::string_view page_token) const;
  absl::Status Delete(absl::string_view id);

  // The whole file that `source` names. InvalidArgument for no source, a
  // local_file (the command line's own), a path that is absolute, leaves the
  // data root (`..` or a link) or is not a regular file; NotFound;
  // PermissionDenied without a data root; ResourceExhausted beyond
  // max_read_bytes.
  absl::StatusOr<std::string> Read(const v1::DataSource& source) const;

 private:
  class Impl;
  explicit DatasetStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_DATASET_STORE_H_
