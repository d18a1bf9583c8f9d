// File calls that fail when a test wants them to.
#ifndef RECURVE_ENGINE_BASE_TESTING_FAULT_FILE_CALLS_H_
#define RECURVE_ENGINE_BASE_TESTING_FAULT_FILE_CALLS_H_

#include "engine/base/file_calls.h"
#include "engine/base/testing/faults.h"

namespace recurve {

// Installed while it lives, for the whole process. Each call is an operation of
// `faults`; one that fails changes nothing, but that a Write has written the
// first half of its bytes (so has one in which CallAt's function runs), and
// Close has closed. Opening a folder to sync it is a call too. To be quick,
// Fsync does nothing: the machine goes on, whatever becomes of the process.
class FaultFileCalls final : public FileCalls {
 public:
  explicit FaultFileCalls(Faults& faults) : faults_(faults), scope_(*this) {}

  // Writes take at most so many bytes at once; 0: all. Every piece is a call.
  void LimitWrites(size_t bytes) { max_write_ = bytes; }

  int Open(const char* path, int flags, mode_t mode) override;
  ssize_t Write(int fd, const void* bytes, size_t size) override;
  int Fsync(int fd) override;
  int Close(int fd) override;
  int Rename(const char* from, const char* to) override;
  int Unlink(const char* path) override;
  int Mkdir(const char* path, mode_t mode) override;
  int Rmdir(const char* path) override;

 private:
  Faults& faults_;
  size_t max_write_ = 0;
  ScopedFileCalls scope_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_TESTING_FAULT_FILE_CALLS_H_
