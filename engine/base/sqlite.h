// SQLite with our errors and without its handles.
#ifndef RECURVE_ENGINE_BASE_SQLITE_H_
#define RECURVE_ENGINE_BASE_SQLITE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sqlite3.h"

namespace recurve {

// What the result code of the last call on `db` means: ResourceExhausted for a
// full disk or memory, DataLoss for damage and what cannot be read, Unavailable
// for what cannot be written or is locked, PermissionDenied for read-only
// files; with the file's path, the words of SQLite and the code. OK for
// SQLITE_OK, _ROW and _DONE.
absl::Status SqliteStatus(int code, sqlite3* db);

// One statement of SQL, run once. Must not outlive its database.
class SqliteStatement {
 public:
  // Parameters, ?1 being 1. An error comes with the next Step.
  SqliteStatement& Bind(int index, int64_t value);
  SqliteStatement& BindText(int index, absl::string_view value);
  SqliteStatement& BindBlob(int index, absl::string_view value);

  // Runs up to the next row: true if there is one, whose columns (0 being the
  // first) are then here until the next Step.
  absl::StatusOr<bool> Step();
  int64_t Int64(int column) const;
  std::string Bytes(int column) const;  // of a text or a blob

  // Runs to the end, through all rows.
  absl::Status Finish();

 private:
  friend class SqliteDatabase;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}
  void Keep(int code);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_code_ = SQLITE_OK;  // the first that was not
};

// An open database file. What a transaction has committed is on disk: WAL with
// synchronous = FULL. Used by one thread at a time.
class SqliteDatabase {
 public:
  // Created if absent, in a folder that is there; ":memory:" lives and dies
  // with the object. The file is checked first: DataLoss, with what to do, if
  // it is damaged or no database.
  static absl::StatusOr<SqliteDatabase> Open(const std::string& path);

  absl::StatusOr<SqliteStatement> Prepare(absl::string_view sql);
  // Statements, separated by semicolons, whose results do not matter.
  absl::Status Execute(const std::string& sql);

 private:
  friend class SqliteTransaction;
  struct Close {
    void operator()(sqlite3* db) const;
  };
  explicit SqliteDatabase(sqlite3* db) : db_(db) {}
  absl::Status Configure();
  absl::Status Check();

  std::unique_ptr<sqlite3, Close> db_;
};

// All that is executed in its life, or nothing of it. Finish statements before
// it ends.
class SqliteTransaction {
 public:
  static absl::StatusOr<SqliteTransaction> Begin(SqliteDatabase& database);
  SqliteTransaction(SqliteTransaction&&) = default;
  SqliteTransaction& operator=(SqliteTransaction&&) = delete;
  // Undoes all, unless it was committed.
  ~SqliteTransaction();

  // On disk when it returns. After an error nothing of it is seen (unless the
  // process ends then: after the next Open it is there whole or not at all).
  absl::Status Commit();

 private:
  struct Rollback {
    void operator()(SqliteDatabase* database) const;
  };
  explicit SqliteTransaction(SqliteDatabase& database) : open_(&database) {}

  std::unique_ptr<SqliteDatabase, Rollback> open_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_SQLITE_H_
