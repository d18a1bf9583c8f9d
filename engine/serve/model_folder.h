// A model on disk:
//
//   versions/N     one version each: version_files.h
//   aliases.json   alias_file.h; absent without aliases
//   deleted/N      an empty folder: N, the newest version there was, has been
//                  deleted, and its number is not used again
#ifndef RECURVE_ENGINE_SERVE_MODEL_FOLDER_H_
#define RECURVE_ENGINE_SERVE_MODEL_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serve/alias_file.h"
#include "engine/serve/model_version.h"
#include "engine/serve/version_contents.h"

namespace recurve {

// A version that cannot be read is its error.
using Versions = std::map<int64_t, absl::StatusOr<ModelHandle>>;

// One thread at a time changes a folder.
class ModelFolder {
 public:
  struct Contents {
    Versions versions;
    absl::StatusOr<Aliases> aliases;
    int64_t last_number = 0;  // of all versions there ever were
  };

  ModelFolder(std::string path, std::string id);

  // What is there; removes what a crash left half done.
  absl::StatusOr<Contents> Load() const;
  // What a model leaves whose first version was not stored.
  void RemoveIfEmpty() const;
  // Away as a whole: where it lies then, for RemoveTree.
  absl::StatusOr<std::string> MoveAside() const;

  // Writes a version made of `contents`, taking what they have but the weights:
  // on disk for good, or, after an error, not at all. `newest` may be null.
  absl::StatusOr<ModelHandle> Store(int64_t number, const ModelHandle& newest,
                                    VersionContents& contents) const;
  // As MoveAside. With `keep_number`, last_number stays what it is.
  absl::StatusOr<std::string> MoveVersionAside(int64_t number,
                                               bool keep_number) const;
  std::string alias_path() const;

 private:
  absl::StatusOr<Versions> LoadVersions() const;
  absl::StatusOr<int64_t> LastDeleted() const;
  absl::Status KeepNumber(int64_t number) const;
  std::string versions_path() const;
  std::string version_path(int64_t number) const;
  std::string deleted_path() const;
  std::string deleted_path(int64_t number) const;

  const std::string path_;
  const std::string id_;
};

// What lies in the folder; first removes what lies aside. Nothing if there is
// no such folder.
absl::StatusOr<std::vector<std::string>> SweepAndList(const std::string& path);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_MODEL_FOLDER_H_
