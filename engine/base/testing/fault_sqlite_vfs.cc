#include "engine/base/testing/fault_sqlite_vfs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace recurve {

// SQLite's table of functions, and what they need.
struct FaultSqliteVfs::Vfs : sqlite3_vfs {
  sqlite3_vfs* real = nullptr;
  Faults* faults = nullptr;
};

namespace {

// A file of ours; that of the real VFS lies behind it.
struct File : sqlite3_file {
  Faults* faults;
  char name[64];  // the end of its path
};

constexpr size_t kRealOffset = (sizeof(File) + 15) / 16 * 16;

sqlite3_file* Real(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<char*>(file) +
                                         kRealOffset);
}

void SetName(File* file, const char* path) {
  const size_t length = std::strlen(path);
  const size_t kept = std::min(length, sizeof file->name - 1);
  std::memcpy(file->name, path + (length - kept), kept + 1);
}

int Next(sqlite3_file* file, const char* operation) {
  auto* ours = static_cast<File*>(file);
  return ours->faults->Next(operation, ours->name);
}

int Close(sqlite3_file* file) {
  return Real(file)->pMethods->xClose(Real(file));
}

int Read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 offset) {
  if (Next(file, "sqlite read") != 0) return SQLITE_IOERR_READ;
  return Real(file)->pMethods->xRead(Real(file), bytes, size, offset);
}

int Write(sqlite3_file* file, const void* bytes, int size,
          sqlite3_int64 offset) {
  sqlite3_file* real = Real(file);
  const int half = size / 2;
  const int code = real->pMethods->xWrite(real, bytes, half, offset);
  if (code != SQLITE_OK) return code;
  const int error = Next(file, "sqlite write");
  if (error != 0) return error == ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
  return real->pMethods->xWrite(real, static_cast<const char*>(bytes) + half,
                                size - half, offset + half);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (Next(file, "sqlite truncate") != 0) return SQLITE_IOERR_TRUNCATE;
  return Real(file)->pMethods->xTruncate(Real(file), size);
}

int Sync(sqlite3_file* file, int /*flags*/) {
  return Next(file, "sqlite sync") != 0 ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return Real(file)->pMethods->xFileSize(Real(file), size);
}

int Lock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xLock(Real(file), level);
}

int Unlock(sqlite3_file* file, int level) {
  return Real(file)->pMethods->xUnlock(Real(file), level);
}

int CheckReservedLock(sqlite3_file* file, int* result) {
  return Real(file)->pMethods->xCheckReservedLock(Real(file), result);
}

int FileControl(sqlite3_file* file, int operation, void* argument) {
  return Real(file)->pMethods->xFileControl(Real(file), operation, argument);
}

int SectorSize(sqlite3_file* file) {
  return Real(file)->pMethods->xSectorSize(Real(file));
}

int DeviceCharacteristics(sqlite3_file* file) {
  return Real(file)->pMethods->xDeviceCharacteristics(Real(file));
}

int ShmMap(sqlite3_file* file, int page, int page_size, int extend,
           void volatile** memory) {
  if (Next(file, "sqlite map shared memory") != 0) return SQLITE_IOERR_SHMMAP;
  return Real(file)->pMethods->xShmMap(Real(file), page, page_size, extend,
                                       memory);
}

int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
  return Real(file)->pMethods->xShmLock(Real(file), offset, count, flags);
}

void ShmBarrier(sqlite3_file* file) {
  Real(file)->pMethods->xShmBarrier(Real(file));
}

int ShmUnmap(sqlite3_file* file, int remove) {
  return Real(file)->pMethods->xShmUnmap(Real(file), remove);
}

// Version 2: with shared memory, without mapped reads.
constexpr sqlite3_io_methods kMethods = {2,
                                         Close,
                                         Read,
                                         Write,
                                         Truncate,
                                         Sync,
                                         FileSize,
                                         Lock,
                                         Unlock,
                                         CheckReservedLock,
                                         FileControl,
                                         SectorSize,
                                         DeviceCharacteristics,
                                         ShmMap,
                                         ShmLock,
                                         ShmBarrier,
                                         ShmUnmap,
                                         nullptr,
                                         nullptr};

}  // namespace

FaultSqliteVfs::FaultSqliteVfs(Faults& faults) : vfs_(new Vfs) {
  sqlite3_vfs* real = sqlite3_vfs_find(nullptr);
  // Its other functions do not look at the table they are called with.
  static_cast<sqlite3_vfs&>(*vfs_) = *real;
  vfs_->real = real;
  vfs_->faults = &faults;
  vfs_->szOsFile = static_cast<int>(kRealOffset) + real->szOsFile;
  vfs_->zName = "faults";
  vfs_->pNext = nullptr;
  vfs_->xOpen = [](sqlite3_vfs* self, const char* path, sqlite3_file* file,
                   int flags, int* out_flags) {
    auto* vfs = static_cast<Vfs*>(self);
    auto* ours = static_cast<File*>(file);
    ours->pMethods = nullptr;
    ours->faults = vfs->faults;
    SetName(ours, path != nullptr ? path : "a temporary file");
    if (Next(file, "sqlite open") != 0) return SQLITE_CANTOPEN;
    const int code =
        vfs->real->xOpen(vfs->real, path, Real(file), flags, out_flags);
    // A file with methods is closed by the caller, even after an error.
    if (Real(file)->pMethods != nullptr) ours->pMethods = &kMethods;
    return code;
  };
  vfs_->xDelete = [](sqlite3_vfs* self, const char* path, int sync) {
    auto* vfs = static_cast<Vfs*>(self);
    if (vfs->faults->Next("sqlite delete", path) != 0) {
      return SQLITE_IOERR_DELETE;
    }
    return vfs->real->xDelete(vfs->real, path, sync);
  };
  sqlite3_vfs_register(vfs_.get(), /*makeDflt=*/1);
}

FaultSqliteVfs::~FaultSqliteVfs() {
  sqlite3_vfs_unregister(vfs_.get());
  sqlite3_vfs_register(vfs_->real, /*makeDflt=*/1);
}

}  // namespace recurve
