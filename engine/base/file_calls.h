// The system calls that change what is on disk, in one place where a test can
// take their place: every fault that a disk can have is then a call that fails.
#ifndef RECURVE_ENGINE_BASE_FILE_CALLS_H_
#define RECURVE_ENGINE_BASE_FILE_CALLS_H_

#include <sys/types.h>

#include <cstddef>

namespace recurve {

// Each is the system call of its name: -1 and errno on failure. Thread-safe.
// Reading goes to the system directly. Whatever writes, creates, renames or
// removes files goes through here (SQLite does through its own VFS).
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int Open(const char* path, int flags, mode_t mode);
  virtual ssize_t Write(int fd, const void* bytes, size_t size);
  virtual int Fsync(int fd);
  // Of a file that was written; the descriptor is gone, even after an error.
  virtual int Close(int fd);
  virtual int Rename(const char* from, const char* to);
  virtual int Unlink(const char* path);
  virtual int Mkdir(const char* path, mode_t mode);
  virtual int Rmdir(const char* path);
};

// Those in use: the system's, unless a test installed others.
FileCalls& file_calls();

// For tests. Installs `calls` for the whole process until destruction, then
// those before it; scopes nest. `calls` must outlive every call under way.
class ScopedFileCalls {
 public:
  explicit ScopedFileCalls(FileCalls& calls);
  ScopedFileCalls(const ScopedFileCalls&) = delete;
  ScopedFileCalls& operator=(const ScopedFileCalls&) = delete;
  ~ScopedFileCalls();

 private:
  FileCalls* const before_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_FILE_CALLS_H_
