// SQLite's own file operations, failing when a test wants them to.
#ifndef RECURVE_ENGINE_BASE_TESTING_FAULT_SQLITE_VFS_H_
#define RECURVE_ENGINE_BASE_TESTING_FAULT_SQLITE_VFS_H_

#include <memory>

#include "engine/base/testing/faults.h"
#include "sqlite3.h"

namespace recurve {

// SQLite's default way to files while it lives; open databases after it exists
// and close them before it goes. Each open, read, write, truncation, sync,
// deletion and mapping of shared memory is an operation of `faults`. One that
// fails is SQLITE_FULL for a write with ENOSPC, else the operation's own
// SQLITE_IOERR (SQLITE_CANTOPEN for opening); it changes nothing, but that a
// write has written the first half of its bytes. To be quick, syncs do nothing:
// the machine goes on, whatever becomes of the process.
class FaultSqliteVfs {
 public:
  explicit FaultSqliteVfs(Faults& faults);
  FaultSqliteVfs(const FaultSqliteVfs&) = delete;
  FaultSqliteVfs& operator=(const FaultSqliteVfs&) = delete;
  ~FaultSqliteVfs();

 private:
  struct Vfs;
  std::unique_ptr<Vfs> vfs_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_TESTING_FAULT_SQLITE_VFS_H_
