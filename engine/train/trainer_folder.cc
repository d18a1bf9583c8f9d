#include "engine/train/trainer_folder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/directory.h"
#include "engine/base/resource_id.h"
#include "engine/model/model.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int kRestartCheckpoints = 2;
constexpr absl::string_view kEnding = ".safetensors";

std::string RestartPath(absl::string_view path) {
  return absl::StrCat(path, "/restart");
}

absl::StatusOr<TrainerRecord> RecordOf(Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(TrainerRecord record,
                   ParseTrainerRecord(checkpoint.details));
  ASSIGN_OR_RETURN(record.origin.model, Model::Create(checkpoint.model_config));
  record.origin.vocabulary = std::move(checkpoint.vocabulary);
  return record;
}

absl::StatusOr<SavedTrainer> SavedOf(Checkpoint checkpoint) {
  SavedTrainer saved;
  ASSIGN_OR_RETURN(saved.record, RecordOf(checkpoint));
  saved.state = std::move(checkpoint.trainer);
  return saved;
}

absl::StatusOr<TrainerSummary> SummarizeFile(const std::string& path) {
  TrainerSummary summary;
  ASSIGN_OR_RETURN(CheckpointDescription described,
                   DescribeCheckpointFile(path));
  ASSIGN_OR_RETURN(summary.record, RecordOf(described.checkpoint));
  summary.step = described.checkpoint.trainer.step;
  summary.size_bytes = described.size_bytes;
  return summary;
}

}  // namespace

Checkpoint MakeCheckpoint(const TrainerRecord& record, TrainerState state) {
  Checkpoint checkpoint;
  checkpoint.model_config = record.origin.model->config();
  checkpoint.vocabulary = record.origin.vocabulary;
  checkpoint.trainer = std::move(state);
  checkpoint.details = SerializeTrainerRecord(record);
  return checkpoint;
}

absl::StatusOr<TrainerFolder> TrainerFolder::Create(const std::string& path,
                                                    const Checkpoint& first) {
  ASSIGN_OR_RETURN(AsideDirectory aside, AsideDirectory::Create(path));
  ASSIGN_OR_RETURN(CheckpointFolder restart,
                   CheckpointFolder::Open(RestartPath(aside.path())));
  RETURN_IF_ERROR(restart.Save(first, kRestartCheckpoints).status());
  RETURN_IF_ERROR(aside.Publish());
  return Open(path);
}

absl::StatusOr<TrainerFolder> TrainerFolder::Open(const std::string& path) {
  ASSIGN_OR_RETURN(CheckpointFolder restart,
                   CheckpointFolder::Open(RestartPath(path)));
  SweepAside(absl::StrCat(path, "/checkpoints"));
  return TrainerFolder(path, std::move(restart));
}

absl::StatusOr<TrainerSummary> TrainerFolder::Summarize() const {
  absl::Status first_error = absl::DataLossError(
      absl::StrCat(RestartPath(path_), " has no checkpoint"));
  const auto& checkpoints = restart_.list();
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend(); ++it) {
    auto summary = SummarizeFile(it->path);
    if (summary.ok()) return summary;
    if (it == checkpoints.rbegin()) {
      first_error = absl::DataLossError(summary.status().message());
    }
  }
  return first_error;
}

absl::StatusOr<SavedTrainer> TrainerFolder::LoadNewest(
    std::vector<std::string>* warnings) {
  auto checkpoint = restart_.LoadNewest(warnings);
  if (absl::IsNotFound(checkpoint.status())) {
    return absl::DataLossError(checkpoint.status().message());
  }
  RETURN_IF_ERROR(checkpoint.status());
  return SavedOf(*std::move(checkpoint));
}

absl::Status TrainerFolder::Save(const Checkpoint& checkpoint) {
  return restart_.Save(checkpoint, kRestartCheckpoints).status();
}

// --- Named checkpoints ---

std::string TrainerFolder::NamedPath(absl::string_view id) const {
  return absl::StrCat(path_, "/checkpoints/", id, id.empty() ? "" : kEnding);
}

absl::StatusOr<TrainerSummary> TrainerFolder::SaveNamed(
    absl::string_view id, const Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(const std::vector<NamedTrainerSummary> others, ListNamed());
  size_t count = 1;
  for (const NamedTrainerSummary& other : others) count += other.id != id;
  if (count > kMaxNamedCheckpoints) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the trainer has ", kMaxNamedCheckpoints,
        " named checkpoints, the limit; save under a name that it has"));
  }
  RETURN_IF_ERROR(CreateDirectories(NamedPath("")));
  RETURN_IF_ERROR(SaveCheckpointFile(NamedPath(id), checkpoint).status());
  return SummarizeFile(NamedPath(id));
}

absl::StatusOr<SavedTrainer> TrainerFolder::LoadNamed(
    absl::string_view id) const {
  auto checkpoint = LoadCheckpointFile(NamedPath(id));
  if (absl::IsNotFound(checkpoint.status())) {
    return absl::NotFoundError(
        absl::StrCat("checkpoint: there is none named ", id));
  }
  RETURN_IF_ERROR(checkpoint.status());
  return SavedOf(*std::move(checkpoint));
}

absl::StatusOr<std::vector<NamedTrainerSummary>> TrainerFolder::ListNamed()
    const {
  std::vector<NamedTrainerSummary> named;
  const auto files = ListDirectory(NamedPath(""));
  if (absl::IsNotFound(files.status())) return named;
  RETURN_IF_ERROR(files.status());
  for (const std::string& file : *files) {
    absl::string_view id = file;
    if (!absl::ConsumeSuffix(&id, kEnding)) continue;
    if (!CheckResourceId(id, "checkpoint").ok()) continue;
    auto summary = SummarizeFile(NamedPath(id));
    if (summary.ok()) named.push_back({std::string(id), *std::move(summary)});
  }
  return named;
}

}  // namespace recurve
