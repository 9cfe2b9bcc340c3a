// SPDX-License-Identifier: Apache-2.0
#include "server/store/sqlite_status.h"

#include <sqlite3.h>

#include <string>

#include "SQLiteCpp/Database.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::store {
namespace {

using ::testing::HasSubstr;

struct Case {
  int code;
  absl::StatusCode expected;
};
class Codes : public testing::TestWithParam<Case> {};

TEST_P(Codes, AreTranslated) {
  const absl::Status status =
      StatusOf(SQLite::Exception("words", GetParam().code), "saving x");
  EXPECT_EQ(status.code(), GetParam().expected);
  EXPECT_THAT(std::string(status.message()), HasSubstr("saving x: words"));
}

INSTANTIATE_TEST_SUITE_P(
    Sqlite, Codes,
    testing::Values(Case{SQLITE_FULL, absl::StatusCode::kResourceExhausted},
                    Case{SQLITE_BUSY, absl::StatusCode::kUnavailable},
                    Case{SQLITE_LOCKED, absl::StatusCode::kUnavailable},
                    Case{SQLITE_CORRUPT, absl::StatusCode::kDataLoss},
                    Case{SQLITE_NOTADB, absl::StatusCode::kDataLoss},
                    Case{SQLITE_READONLY, absl::StatusCode::kPermissionDenied},
                    Case{SQLITE_CANTOPEN, absl::StatusCode::kPermissionDenied},
                    Case{SQLITE_INTERRUPT, absl::StatusCode::kDeadlineExceeded},
                    Case{SQLITE_IOERR, absl::StatusCode::kInternal},
                    Case{SQLITE_MISUSE, absl::StatusCode::kInternal}));

absl::Status Execute(SQLite::Database& database, const char* sql) {
  return CatchSqlite("x", [&] {
    database.exec(sql);
    return absl::OkStatus();
  });
}

TEST(CatchSqlite, TellsConstraintsApart) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE);
  database.exec(
      "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER UNIQUE, "
      "c INTEGER CHECK (c > 0)) STRICT; INSERT INTO t VALUES (1, 1, 1);"
      "CREATE TRIGGER f BEFORE UPDATE OF c ON t "
      "BEGIN SELECT RAISE(ABORT, 'never'); END");
  EXPECT_EQ(Execute(database, "INSERT INTO t VALUES (1, 2, 1)").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Execute(database, "INSERT INTO t VALUES (2, 1, 1)").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Execute(database, "UPDATE t SET c = 2").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Execute(database, "INSERT INTO t VALUES (2, 2, 0)").code(),
            absl::StatusCode::kInternal);
  EXPECT_TRUE(Execute(database, "INSERT INTO t VALUES (2, 2, 2)").ok());
}

TEST(CatchSqlite, PassesResultsThrough) {
  const absl::StatusOr<int> seven =
      CatchSqlite("x", []() -> absl::StatusOr<int> { return 7; });
  ASSERT_TRUE(seven.ok());
  EXPECT_EQ(*seven, 7);
  const absl::StatusOr<int> failed = CatchSqlite(
      "x", []() -> absl::StatusOr<int> { return absl::AbortedError("no"); });
  EXPECT_EQ(failed.status(), absl::AbortedError("no"));
}

}  // namespace
}  // namespace mpsd::store
