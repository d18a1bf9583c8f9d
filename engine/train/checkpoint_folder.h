// The checkpoints of one training, newest last, in a folder of their own:
//
//   checkpoint-NUMBER-STEP.safetensors   NUMBER 12 digits, ascending
//   ....safetensors.damaged              did not read, put aside
#ifndef RECURVE_ENGINE_TRAIN_CHECKPOINT_FOLDER_H_
#define RECURVE_ENGINE_TRAIN_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/train/checkpoint.h"

namespace recurve {

struct CheckpointInfo {
  std::string path;
  int64_t number = 0;  // 1, 2, 3, ... in the order of saving
  int64_t step = 0;
  int64_t size_bytes = 0;
};

// For one thread, and the only one to change the folder.
class CheckpointFolder {
 public:
  // Creates the folder; removes what a crash left half written.
  static absl::StatusOr<CheckpointFolder> Open(const std::string& path);

  // Once it is on disk, all but the newest `keep_last` (1 or more) are removed.
  // On an error all that was there before is still there.
  absl::StatusOr<CheckpointInfo> Save(const Checkpoint& checkpoint,
                                      int keep_last);

  // The newest that reads whole. Those that do not are described in `warnings`
  // (appended) and skipped, damaged ones put aside. NotFound where there is
  // none, DataLoss where there is none that reads. Other errors, of one that
  // may yet read, skip nothing: they may pass.
  absl::StatusOr<Checkpoint> LoadNewest(std::vector<std::string>* warnings);

  // Removes all but the newest `keep` (0 or more), as far as the system lets.
  void Prune(int keep);

  const std::vector<CheckpointInfo>& list() const { return infos_; }

 private:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}
  void Notice(const std::string& name);

  std::string path_;
  std::vector<CheckpointInfo> infos_;  // oldest first
  int64_t last_number_ = 0;            // damaged ones included
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_CHECKPOINT_FOLDER_H_
