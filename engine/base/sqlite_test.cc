#include "engine/base/sqlite.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/base/testing/fault_sqlite_vfs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/status.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string TestPath() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + "/" + info->name();
  for (const char* end : {"", "-wal", "-shm"}) fs::remove(path + end);
  return path;
}

absl::StatusOr<int64_t> Value(SqliteDatabase& db, const std::string& sql) {
  ASSIGN_OR_RETURN(SqliteStatement statement, db.Prepare(sql));
  ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::NotFoundError("no row");
  return statement.Int64(0);
}

TEST(SqliteTest, ValuesComeBackAsTheyWere) {
  SqliteDatabase db = *SqliteDatabase::Open(":memory:");
  ASSERT_TRUE(db.Execute("CREATE TABLE t (i INTEGER, s TEXT, b BLOB)").ok());
  const std::string blob("a\0b\xff", 4);
  for (const int64_t i : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    SqliteStatement insert = *db.Prepare("INSERT INTO t VALUES (?1, ?2, ?3)");
    ASSERT_TRUE(insert.Bind(1, i)
                    .BindText(2, "t'\xc3\xa4")
                    .BindBlob(3, blob)
                    .Finish()
                    .ok());
  }
  SqliteStatement empty = *db.Prepare("INSERT INTO t VALUES (0, ?1, ?2)");
  ASSERT_TRUE(empty.BindText(1, "").BindBlob(2, "").Finish().ok());
  SqliteStatement select = *db.Prepare("SELECT * FROM t ORDER BY rowid");
  for (const int64_t i : {INT64_MIN, int64_t{-1}, INT64_MAX}) {
    ASSERT_TRUE(*select.Step());
    EXPECT_EQ(select.Int64(0), i);
    EXPECT_EQ(select.Bytes(1), "t'\xc3\xa4");
    EXPECT_EQ(select.Bytes(2), blob);
  }
  ASSERT_TRUE(*select.Step());
  EXPECT_EQ(select.Bytes(2), "");
  EXPECT_FALSE(*select.Step());
  EXPECT_EQ(*Value(db, "SELECT count(*) FROM t WHERE s IS NULL OR b IS NULL"),
            0);
}

TEST(SqliteTest, FilesAreWrittenAheadAndSyncedInFull) {
  SqliteDatabase db = *SqliteDatabase::Open(TestPath());
  SqliteStatement mode = *db.Prepare("PRAGMA journal_mode");
  ASSERT_TRUE(*mode.Step());
  EXPECT_EQ(mode.Bytes(0), "wal");
  EXPECT_EQ(*Value(db, "PRAGMA synchronous"), 2);
  EXPECT_EQ(*Value(db, "PRAGMA foreign_keys"), 1);
}

TEST(SqliteTest, OnlyCommittedTransactionsCount) {
  const std::string path = TestPath();
  {
    SqliteDatabase db = *SqliteDatabase::Open(path);
    ASSERT_TRUE(db.Execute("CREATE TABLE t (i)").ok());
    SqliteTransaction kept = *SqliteTransaction::Begin(db);
    ASSERT_TRUE(db.Execute("INSERT INTO t VALUES (1)").ok());
    EXPECT_FALSE(SqliteTransaction::Begin(db).ok());
    ASSERT_TRUE(kept.Commit().ok());
    SqliteTransaction dropped = *SqliteTransaction::Begin(db);
    ASSERT_TRUE(db.Execute("INSERT INTO t VALUES (2)").ok());
  }
  SqliteDatabase db = *SqliteDatabase::Open(path);
  EXPECT_EQ(*Value(db, "SELECT sum(i) FROM t"), 1);
}

TEST(SqliteTest, ErrorsSayWhatToDo) {
  SqliteDatabase db = *SqliteDatabase::Open(":memory:");
  EXPECT_EQ(db.Prepare("SELEC").status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(db.Prepare("SELEC").status().message()),
              HasSubstr("near \"SELEC\": syntax error"));
  SqliteStatement statement = *db.Prepare("SELECT ?1");
  EXPECT_FALSE(statement.Bind(2, 0).Step().ok());
  EXPECT_EQ(SqliteDatabase::Open("/none/db").status().code(),
            absl::StatusCode::kUnavailable);

  const std::string path = TestPath();
  SqliteDatabase one = *SqliteDatabase::Open(path);
  SqliteDatabase two = *SqliteDatabase::Open(path);
  ASSERT_TRUE(two.Execute("PRAGMA busy_timeout = 0").ok());
  SqliteTransaction busy = *SqliteTransaction::Begin(one);
  const absl::Status status = SqliteTransaction::Begin(two).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/ErrorsSayWhatToDo"));
}

TEST(SqliteTest, ADamagedFileIsDataLossWithAdvice) {
  const std::string path = TestPath();
  std::ofstream(path) << std::string(10000, 'x');
  absl::Status status = SqliteDatabase::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr("move it away"));

  fs::remove(path);
  {
    SqliteDatabase db = *SqliteDatabase::Open(path);
    ASSERT_TRUE(db.Execute("CREATE TABLE t (b); CREATE TABLE u (b);"
                           "INSERT INTO t VALUES (randomblob(3000));"
                           "INSERT INTO t SELECT b FROM t;")
                    .ok());
  }
  const auto size = fs::file_size(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096);  // the second page: the root of the first table
  file << std::string(size - 4096, '\xee');
  file.close();
  status = SqliteDatabase::Open(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
}

// Opens, adds 1 to the number in the table, which is 0 at first, and closes.
absl::Status Add(const std::string& path) {
  ASSIGN_OR_RETURN(SqliteDatabase db, SqliteDatabase::Open(path));
  ASSIGN_OR_RETURN(SqliteTransaction transaction, SqliteTransaction::Begin(db));
  RETURN_IF_ERROR(
      db.Execute("CREATE TABLE IF NOT EXISTS t (i);"
                 "INSERT INTO t SELECT 0 WHERE NOT EXISTS (SELECT * FROM t);"
                 "UPDATE t SET i = i + 1"));
  return transaction.Commit();
}

int64_t Sum(const std::string& path) {
  auto db = SqliteDatabase::Open(path);
  EXPECT_TRUE(db.ok()) << db.status();
  return Value(*db, "SELECT i FROM t").value_or(0);
}

TEST(SqliteTest, WhicheverOperationFailsATransactionIsThereWholeOrNotAtAll) {
  const std::string path = TestPath();
  Faults faults;
  FaultSqliteVfs vfs(faults);
  int64_t sum = 0;
  for (const int error : {EIO, ENOSPC}) {
    for (const auto extent : {Faults::kOnce, Faults::kFromThen}) {
      int64_t n = 1;
      for (;; ++n) {
        faults.FailAt(n, error, extent);
        const absl::Status status = Add(path);
        const bool failed = faults.Disarm();
        const int64_t next = Sum(path);
        // One that was not acknowledged may be there after the next opening.
        EXPECT_THAT(next, AnyOf(status.ok() ? sum + 1 : sum, sum + 1))
            << faults.where() << status;
        sum = next;
        if (!failed) break;
      }
      EXPECT_GT(n, 10);
    }
  }
}

TEST(SqliteTest, WhereverTheProcessDiesWhatWasAcknowledgedIsThere) {
  const std::string path = TestPath();
  int64_t sum = 0;
  for (int64_t n = 1;; ++n) {
    const pid_t child = fork();
    if (child == 0) {
      Faults faults;
      FaultSqliteVfs vfs(faults);
      faults.CallAt(n, [] { _exit(9); });
      _exit(Add(path).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    const int64_t next = Sum(path);
    EXPECT_THAT(next, AnyOf(sum, sum + 1)) << n;
    sum = next;
    if (WEXITSTATUS(status) == 0) break;
    ASSERT_EQ(WEXITSTATUS(status), 9);
  }
  EXPECT_GT(sum, 1);
}

}  // namespace
}  // namespace recurve
