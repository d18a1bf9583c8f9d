#include "engine/base/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/file_calls.h"
#include "engine/base/file_descriptor.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr char kAsidePrefix[] = ".aside-";

bool Exists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

bool IsDirectory(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// One that is there already, perhaps by another thread, is fine.
absl::Status CreateDirectory(const std::string& path) {
  if (file_calls().Mkdir(path.c_str(), 0755) != 0) {
    if (errno == EEXIST) return absl::OkStatus();
    return SystemError("create", path);
  }
  absl::Status synced = SyncDirectory(DirectoryOf(path));
  // Else the next call would take it for one that lasts.
  if (!synced.ok()) file_calls().Rmdir(path.c_str());
  return synced;
}

// Between names in one folder. Undone if it may not last.
absl::Status RenameToLast(const std::string& from, const std::string& to) {
  if (file_calls().Rename(from.c_str(), to.c_str()) != 0) {
    return SystemError("rename", from);
  }
  absl::Status synced = SyncDirectory(DirectoryOf(to));
  if (!synced.ok()) file_calls().Rename(to.c_str(), from.c_str());
  return synced;
}

absl::Status Unlink(const std::string& path) {
  if (file_calls().Unlink(path.c_str()) == 0) return absl::OkStatus();
  return SystemError("remove", path);
}

}  // namespace

absl::Status SyncDirectory(const std::string& path) {
  const FileDescriptor directory(
      file_calls().Open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (directory.get() < 0) return SystemError("open", path);
  if (file_calls().Fsync(directory.get()) != 0) {
    return SystemError("sync", path);
  }
  return absl::OkStatus();
}

absl::Status CreateDirectories(const std::string& path) {
  struct stat info;  // a link to a folder will do
  if (stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return absl::OkStatus();
    errno = ENOTDIR;
    return SystemError("create", path);
  }
  const std::string parent = DirectoryOf(path);
  if (parent != path) RETURN_IF_ERROR(CreateDirectories(parent));
  return CreateDirectory(path);
}

absl::StatusOr<std::vector<std::string>> ListDirectory(
    const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end;
       !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) {
    errno = error.value();
    return SystemError("list", path);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoveTree(const std::string& path) {
  if (!Exists(path)) return absl::OkStatus();
  if (!IsDirectory(path)) return Unlink(path);
  absl::Status first;
  ASSIGN_OR_RETURN(const auto names, ListDirectory(path));
  for (const std::string& name : names) {
    first.Update(RemoveTree(absl::StrCat(path, "/", name)));
  }
  if (first.ok() && file_calls().Rmdir(path.c_str()) != 0) {
    first = SystemError("remove", path);
  }
  return first;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string AsidePath(const std::string& path) {
  static std::atomic<int64_t> counter{0};
  return absl::StrCat(DirectoryOf(path), "/", kAsidePrefix, getpid(), "-",
                      counter++);
}

void SweepAside(const std::string& path) {
  const auto names = ListDirectory(path);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kAsidePrefix)) continue;
    RemoveTree(absl::StrCat(path, "/", name)).IgnoreError();
  }
}

absl::StatusOr<std::string> MoveAside(const std::string& path) {
  std::string aside = AsidePath(path);
  // An earlier process may have had this one's number.
  RETURN_IF_ERROR(RemoveTree(aside));
  RETURN_IF_ERROR(Exists(path) ? RenameToLast(path, aside)
                               : SyncDirectory(DirectoryOf(path)));
  return aside;
}

absl::StatusOr<AsideDirectory> AsideDirectory::Create(const std::string& path) {
  std::string aside = AsidePath(path);
  RETURN_IF_ERROR(RemoveTree(aside));  // as in MoveAside
  if (file_calls().Mkdir(aside.c_str(), 0755) != 0) {
    return SystemError("create", aside);
  }
  return AsideDirectory(std::move(aside), path);
}

AsideDirectory::AsideDirectory(std::string aside, std::string path)
    : aside_(std::move(aside)), path_(std::move(path)) {}

AsideDirectory::AsideDirectory(AsideDirectory&& other) noexcept
    : aside_(std::exchange(other.aside_, "")), path_(std::move(other.path_)) {}

AsideDirectory::~AsideDirectory() {
  if (!aside_.empty()) RemoveTree(aside_).IgnoreError();
}

absl::Status AsideDirectory::Publish() {
  if (Exists(path_)) {
    ASSIGN_OR_RETURN(const std::string left, MoveAside(path_));
    RemoveTree(left).IgnoreError();
  }
  RETURN_IF_ERROR(SyncDirectory(aside_));
  RETURN_IF_ERROR(RenameToLast(aside_, path_));
  aside_.clear();
  return absl::OkStatus();
}

}  // namespace recurve
