// Folders whose changes last, and the way things come and go in them: whole.
//
// What is being written or removed lies *aside*, under a name beginning with
// `.aside-` in the folder that it goes to or comes from. Nothing looks at those
// names but SweepAside, at the next start.
#ifndef RECURVE_ENGINE_BASE_DIRECTORY_H_
#define RECURVE_ENGINE_BASE_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recurve {

// Errors are SystemError's, with the path.

// Makes names created, renamed or removed in the folder last.
absl::Status SyncDirectory(const std::string& path);

// Creates the folder and those above it that are missing, to last.
absl::Status CreateDirectories(const std::string& path);

// Sorted, without `.` and `..`.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// Removes the file or folder and all in it; links are removed, not followed.
// Goes on after an error and returns the first; OK if nothing is there. Not
// synced, and seen half done meanwhile: for what lies aside.
absl::Status RemoveTree(const std::string& path);

// The folder that `path` is in; `.` for a bare name.
std::string DirectoryOf(const std::string& path);

// A name beside `path` that no other call and no other process that still runs
// is given.
std::string AsidePath(const std::string& path);

// Removes what lies aside in the folder. What cannot be removed stays for the
// next start.
void SweepAside(const std::string& path);

// Takes the file or folder away, at once and to last: it now lies at the path
// returned, for RemoveTree. On an error it is where it was, unless the disk
// failed twice. OK if nothing is there.
absl::StatusOr<std::string> MoveAside(const std::string& path);

// A folder that is written aside and then appears whole. Removed on
// destruction, unless it was published.
class AsideDirectory {
 public:
  // Beside `path`, which is where it is to appear.
  static absl::StatusOr<AsideDirectory> Create(const std::string& path);
  AsideDirectory(AsideDirectory&& other) noexcept;
  AsideDirectory& operator=(AsideDirectory&&) = delete;
  ~AsideDirectory();

  // Where it lies until then; files in it must be synced by whoever writes
  // them.
  const std::string& path() const { return aside_; }
  // It appears, to last. What a failed publication left at its place is taken
  // away first: there must be nothing else. On an error it does not appear,
  // unless the disk failed twice. Once.
  absl::Status Publish();

 private:
  AsideDirectory(std::string aside, std::string path);

  std::string aside_;  // empty: published, or moved away
  std::string path_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_DIRECTORY_H_
