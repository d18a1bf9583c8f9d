#include "engine/base/testing/fault_file_calls.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

// The path of an open file.
std::string PathOf(int fd) {
  char path[PATH_MAX];
  const ssize_t length =
      readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), path, sizeof path);
  return length < 0 ? absl::StrCat(fd) : std::string(path, path + length);
}

// Sets errno; whether the call is to fail.
bool Fails(int error) {
  if (error != 0) errno = error;
  return error != 0;
}

}  // namespace

int FaultFileCalls::Open(const char* path, int flags, mode_t mode) {
  if (Fails(faults_.Next("open", path))) return -1;
  return FileCalls::Open(path, flags, mode);
}

ssize_t FaultFileCalls::Write(int fd, const void* bytes, size_t size) {
  if (max_write_ > 0) size = std::min(size, max_write_);
  const ssize_t half = FileCalls::Write(fd, bytes, size / 2);
  if (half < 0 || Fails(faults_.Next("write", PathOf(fd)))) return -1;
  const ssize_t rest =
      FileCalls::Write(fd, static_cast<const char*>(bytes) + half,
                       size - static_cast<size_t>(half));
  return rest < 0 ? rest : half + rest;
}

int FaultFileCalls::Fsync(int fd) {
  return Fails(faults_.Next("fsync", PathOf(fd))) ? -1 : 0;
}

int FaultFileCalls::Close(int fd) {
  const int error = faults_.Next("close", PathOf(fd));
  const int result = FileCalls::Close(fd);
  return Fails(error) ? -1 : result;
}

int FaultFileCalls::Rename(const char* from, const char* to) {
  if (Fails(faults_.Next("rename", to))) return -1;
  return FileCalls::Rename(from, to);
}

int FaultFileCalls::Unlink(const char* path) {
  if (Fails(faults_.Next("unlink", path))) return -1;
  return FileCalls::Unlink(path);
}

int FaultFileCalls::Mkdir(const char* path, mode_t mode) {
  if (Fails(faults_.Next("mkdir", path))) return -1;
  return FileCalls::Mkdir(path, mode);
}

int FaultFileCalls::Rmdir(const char* path) {
  if (Fails(faults_.Next("rmdir", path))) return -1;
  return FileCalls::Rmdir(path);
}

}  // namespace recurve
