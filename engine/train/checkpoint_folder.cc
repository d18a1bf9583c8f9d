#include "engine/train/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/directory.h"
#include "engine/base/file_calls.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kPrefix = "checkpoint-";
constexpr absl::string_view kSuffix = ".safetensors";
constexpr absl::string_view kDamaged = ".damaged";

std::string FileName(int64_t number, int64_t step) {
  return absl::StrFormat("%s%012d-%d%s", kPrefix, number, step, kSuffix);
}

struct ParsedName {
  int64_t number = 0;
  int64_t step = 0;
  bool damaged = false;
};

std::optional<ParsedName> ParseName(absl::string_view name) {
  ParsedName parsed;
  parsed.damaged = absl::ConsumeSuffix(&name, kDamaged);
  if (!absl::ConsumePrefix(&name, kPrefix)) return std::nullopt;
  if (!absl::ConsumeSuffix(&name, kSuffix)) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits('-', 1));
  if (!absl::SimpleAtoi(parts.first, &parsed.number) ||
      !absl::SimpleAtoi(parts.second, &parsed.step)) {
    return std::nullopt;
  }
  return parsed;
}

}  // namespace

void CheckpointFolder::Notice(const std::string& name) {
  const auto parsed = ParseName(name);
  if (!parsed) return;
  last_number_ = std::max(last_number_, parsed->number);
  if (parsed->damaged) return;
  CheckpointInfo info{absl::StrCat(path_, "/", name), parsed->number,
                      parsed->step, 0};
  std::error_code error;
  const auto size = std::filesystem::file_size(info.path, error);
  if (!error) info.size_bytes = static_cast<int64_t>(size);
  infos_.push_back(std::move(info));
}

absl::StatusOr<CheckpointFolder> CheckpointFolder::Open(
    const std::string& path) {
  RETURN_IF_ERROR(CreateDirectories(path));
  SweepAside(path);
  CheckpointFolder folder(path);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path));
  for (const std::string& name : names) folder.Notice(name);
  std::sort(folder.infos_.begin(), folder.infos_.end(),
            [](const CheckpointInfo& a, const CheckpointInfo& b) {
              return a.number < b.number;
            });
  return folder;
}

absl::StatusOr<CheckpointInfo> CheckpointFolder::Save(
    const Checkpoint& checkpoint, int keep_last) {
  CheckpointInfo info;
  // A number is used once, even if saving fails: what is there under it then
  // cannot be said.
  info.number = ++last_number_;
  info.step = checkpoint.trainer.step;
  info.path = absl::StrCat(path_, "/", FileName(info.number, info.step));
  ASSIGN_OR_RETURN(info.size_bytes, SaveCheckpointFile(info.path, checkpoint));
  infos_.push_back(info);
  Prune(keep_last);
  return info;
}

absl::StatusOr<Checkpoint> CheckpointFolder::LoadNewest(
    std::vector<std::string>* warnings) {
  if (infos_.empty()) return absl::NotFoundError(path_ + " has no checkpoint");
  for (int64_t i = static_cast<int64_t>(infos_.size()) - 1; i >= 0; --i) {
    const std::string path = infos_[i].path;
    auto checkpoint = LoadCheckpointFile(path);
    const bool damaged = absl::IsDataLoss(checkpoint.status());
    const bool gone = absl::IsNotFound(checkpoint.status());
    if (!damaged && !gone) return checkpoint;
    warnings->push_back(absl::StrCat("skipped the checkpoint of step ",
                                     infos_[i].step, ": ",
                                     checkpoint.status().message()));
    if (damaged) {
      file_calls().Rename(path.c_str(), absl::StrCat(path, kDamaged).c_str());
    }
    infos_.erase(infos_.begin() + i);
  }
  return absl::DataLossError(absl::StrCat(
      path_, " has no checkpoint that can be read; ", warnings->back()));
}

void CheckpointFolder::Prune(int keep) {
  const auto size = static_cast<int64_t>(infos_.size());
  const auto first_kept = infos_.begin() + std::max<int64_t>(size - keep, 0);
  // What the system does not let go is tried again the next time.
  const auto gone = std::remove_if(
      infos_.begin(), first_kept, [](const CheckpointInfo& info) {
        return file_calls().Unlink(info.path.c_str()) == 0 || errno == ENOENT;
      });
  infos_.erase(gone, first_kept);
}

}  // namespace recurve
