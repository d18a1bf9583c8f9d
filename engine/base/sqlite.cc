#include "engine/base/sqlite.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int kBusyTimeoutMs = 10'000;

absl::StatusCode CodeOf(int code) {
  switch (code) {  // extended codes first
    case SQLITE_IOERR_READ:
    case SQLITE_IOERR_SHORT_READ:
    case SQLITE_IOERR_CORRUPTFS:
      return absl::StatusCode::kDataLoss;
    case SQLITE_IOERR_NOMEM:
      return absl::StatusCode::kResourceExhausted;
  }
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return absl::StatusCode::kOk;
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::StatusCode::kDataLoss;
    case SQLITE_PERM:
    case SQLITE_READONLY:
      return absl::StatusCode::kPermissionDenied;
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
      return absl::StatusCode::kUnavailable;
  }
  return absl::StatusCode::kInternal;
}

}  // namespace

absl::Status SqliteStatus(int code, sqlite3* db) {
  const absl::StatusCode status = CodeOf(code);
  if (status == absl::StatusCode::kOk) return absl::OkStatus();
  const char* path = sqlite3_db_filename(db, "main");
  return absl::Status(status,
                      absl::StrCat(path != nullptr ? path : "", ": ",
                                   sqlite3_errmsg(db), " (SQLite ", code, ")"));
}

// --- Statements ---

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void SqliteStatement::Keep(int code) {
  if (bind_code_ == SQLITE_OK) bind_code_ = code;
}

SqliteStatement& SqliteStatement::Bind(int index, int64_t value) {
  Keep(sqlite3_bind_int64(statement_.get(), index, value));
  return *this;
}

SqliteStatement& SqliteStatement::BindText(int index, absl::string_view value) {
  Keep(sqlite3_bind_text64(statement_.get(), index, value.data(), value.size(),
                           SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

SqliteStatement& SqliteStatement::BindBlob(int index, absl::string_view value) {
  // A null pointer would bind NULL.
  Keep(sqlite3_bind_blob64(statement_.get(), index,
                           value.empty() ? "" : value.data(), value.size(),
                           SQLITE_TRANSIENT));
  return *this;
}

absl::StatusOr<bool> SqliteStatement::Step() {
  int code = bind_code_;
  if (code == SQLITE_OK) code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return SqliteStatus(code, sqlite3_db_handle(statement_.get()));
}

int64_t SqliteStatement::Int64(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string SqliteStatement::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return std::string(static_cast<const char*>(bytes), bytes ? size : 0);
}

absl::Status SqliteStatement::Finish() {
  while (true) {
    ASSIGN_OR_RETURN(const bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

// --- Databases ---

void SqliteDatabase::Close::operator()(sqlite3* db) const { sqlite3_close(db); }

absl::StatusOr<SqliteDatabase> SqliteDatabase::Open(const std::string& path) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      nullptr);
  SqliteDatabase database(db);  // even after an error there is a handle
  absl::Status status = SqliteStatus(code, db);
  if (status.ok()) status = database.Configure();
  if (status.ok()) status = database.Check();
  if (status.ok()) return database;
  const char* advice =
      absl::IsDataLoss(status)
          ? ". Put a copy in its place, or move it away, with the files of its "
            "name that end in -wal and -shm, to begin without its contents"
          : "";
  return absl::Status(status.code(), absl::StrCat("opening ", path, ": ",
                                                  status.message(), advice));
}

absl::Status SqliteDatabase::Configure() {
  sqlite3_extended_result_codes(db_.get(), 1);
  sqlite3_busy_timeout(db_.get(), kBusyTimeoutMs);
  return Execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
      "PRAGMA foreign_keys = ON;");
}

absl::Status SqliteDatabase::Check() {
  ASSIGN_OR_RETURN(SqliteStatement check, Prepare("PRAGMA quick_check(1)"));
  ASSIGN_OR_RETURN(const bool row, check.Step());
  const std::string answer = row ? check.Bytes(0) : "no answer";
  if (answer == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("is damaged: ", answer));
}

absl::StatusOr<SqliteStatement> SqliteDatabase::Prepare(absl::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(
      db_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  RETURN_IF_ERROR(SqliteStatus(code, db_.get()));
  return SqliteStatement(statement);
}

absl::Status SqliteDatabase::Execute(const std::string& sql) {
  const int code =
      sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return SqliteStatus(code, db_.get());
}

// --- Transactions ---

absl::StatusOr<SqliteTransaction> SqliteTransaction::Begin(
    SqliteDatabase& database) {
  RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  return SqliteTransaction(database);
}

void SqliteTransaction::Rollback::operator()(SqliteDatabase* database) const {
  // Some errors have ended the transaction already; then this one says so.
  database->Execute("ROLLBACK").IgnoreError();
}

SqliteTransaction::~SqliteTransaction() = default;

absl::Status SqliteTransaction::Commit() {
  RETURN_IF_ERROR(open_->Execute("COMMIT"));
  open_.release();
  return absl::OkStatus();
}

}  // namespace recurve
