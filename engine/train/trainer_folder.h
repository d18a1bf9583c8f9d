// A trainer on disk:
//   restart/      the last two checkpoints, to go on from
//   checkpoints/  ID.safetensors: those that a client named
// The folder appears with its first checkpoint in it, or not at all.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_FOLDER_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_FOLDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/trainer_record.h"
#include "engine/train/trainer_state.h"

namespace recurve {

inline constexpr size_t kMaxNamedCheckpoints = 100;

// A checkpoint without its tensors.
struct TrainerSummary {
  TrainerRecord record;
  int64_t step = 0;
  int64_t size_bytes = 0;
};

struct NamedTrainerSummary {
  std::string id;
  TrainerSummary summary;
};

struct SavedTrainer {
  TrainerRecord record;
  TrainerState state;
};

Checkpoint MakeCheckpoint(const TrainerRecord& record, TrainerState state);

// Writing is for one caller at a time; reading named checkpoints is not
// disturbed by it. Errors are those of files, with the path; DataLoss for what
// is damaged.
class TrainerFolder {
 public:
  // `path` must not be there yet; it is, and lasts, when this returns.
  static absl::StatusOr<TrainerFolder> Create(const std::string& path,
                                              const Checkpoint& first);
  static absl::StatusOr<TrainerFolder> Open(const std::string& path);

  // Of the newest checkpoint whose description can be read; its tensors are not
  // looked at.
  absl::StatusOr<TrainerSummary> Summarize() const;
  // The newest that reads whole; what was skipped is in `warnings`.
  absl::StatusOr<SavedTrainer> LoadNewest(std::vector<std::string>* warnings);
  absl::Status Save(const Checkpoint& checkpoint);

  // Replaces the one of that id. ResourceExhausted beyond kMaxNamedCheckpoints.
  absl::StatusOr<TrainerSummary> SaveNamed(absl::string_view id,
                                           const Checkpoint& checkpoint);
  // NotFound if there is none.
  absl::StatusOr<SavedTrainer> LoadNamed(absl::string_view id) const;
  // By id. Those that cannot be read are left out.
  absl::StatusOr<std::vector<NamedTrainerSummary>> ListNamed() const;

 private:
  TrainerFolder(std::string path, CheckpointFolder restart)
      : path_(std::move(path)), restart_(std::move(restart)) {}
  std::string NamedPath(absl::string_view id) const;

  std::string path_;
  CheckpointFolder restart_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_FOLDER_H_
