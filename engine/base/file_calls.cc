#include "engine/base/file_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace recurve {
namespace {

// Null: the system's.
std::atomic<FileCalls*> installed{nullptr};

}  // namespace

int FileCalls::Open(const char* path, int flags, mode_t mode) {
  return open(path, flags, mode);
}
ssize_t FileCalls::Write(int fd, const void* bytes, size_t size) {
  return write(fd, bytes, size);
}
int FileCalls::Fsync(int fd) { return fsync(fd); }
int FileCalls::Close(int fd) { return close(fd); }
int FileCalls::Rename(const char* from, const char* to) {
  return rename(from, to);
}
int FileCalls::Unlink(const char* path) { return unlink(path); }
int FileCalls::Mkdir(const char* path, mode_t mode) {
  return mkdir(path, mode);
}
int FileCalls::Rmdir(const char* path) { return rmdir(path); }

FileCalls& file_calls() {
  static FileCalls* const system = new FileCalls;
  FileCalls* const calls = installed.load(std::memory_order_acquire);
  return calls != nullptr ? *calls : *system;
}

ScopedFileCalls::ScopedFileCalls(FileCalls& calls)
    : before_(installed.exchange(&calls)) {}
ScopedFileCalls::~ScopedFileCalls() { installed.store(before_); }

}  // namespace recurve
