// SPDX-License-Identifier: Apache-2.0
#include "server/store/connection.h"

#include <sqlite3.h>

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/status_matchers.h"

namespace mpsd::store {
namespace {

using enum absl::StatusCode;
using testing_support::Fails;

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest()
      : connection_(SQLite::Database(":memory:", SQLite::OPEN_READWRITE),
                    [this](absl::Duration took) { commits_.push_back(took); }) {
    absl::MutexLock lock(&connection_.mutex());
    connection_.database().exec("CREATE TABLE t (a, b)");
  }
  std::vector<absl::Duration> commits_;
  Connection connection_;
};

TEST_F(ConnectionTest, AStatementIsPreparedOnce) {
  absl::MutexLock lock(&connection_.mutex());
  const auto first = connection_.Prepared("SELECT 1");
  EXPECT_NE(connection_.Prepared("SELECT 2"), first);
  EXPECT_EQ(connection_.Prepared("SELECT 1"), first);
  EXPECT_EQ(connection_.kept_statements(), 2u);
}

TEST_F(ConnectionTest, OnlyTheLastStatementsAreKept) {
  absl::MutexLock lock(&connection_.mutex());
  const auto number = [](size_t i) { return "SELECT " + std::to_string(i); };
  const auto often = connection_.Prepared("SELECT 'often'");
  Query held(connection_, "SELECT a FROM t");
  for (size_t i = 0; i < 3 * Connection::kKeptStatements; ++i) {
    connection_.Prepared(number(i));
    EXPECT_EQ(connection_.Prepared("SELECT 'often'"), often);
    EXPECT_LE(connection_.kept_statements(), Connection::kKeptStatements);
  }
  EXPECT_EQ(connection_.kept_statements(), Connection::kKeptStatements);
  EXPECT_FALSE(held.Next()) << "it lives as long as its query";
}

TEST_F(ConnectionTest, TellsHowLongACommitTook) {
  absl::MutexLock lock(&connection_.mutex());
  {
    Transaction transaction(connection_);
    Query(connection_, "INSERT INTO t VALUES (1, 2)").Run();
  }
  EXPECT_TRUE(commits_.empty()) << "nothing was committed";
  EXPECT_FALSE(Query(connection_, "SELECT a FROM t").Next());
  {
    Transaction transaction(connection_);
    Query(connection_, "INSERT INTO t VALUES (1, 2)").Run();
    EXPECT_TRUE(commits_.empty());
    transaction.Commit();
  }
  ASSERT_EQ(commits_.size(), 1u);
  EXPECT_GE(commits_[0], absl::ZeroDuration());
  EXPECT_LT(commits_[0], absl::Minutes(1));
}

TEST_F(ConnectionTest, ACommitThatFailsIsToldToo) {
  absl::MutexLock lock(&connection_.mutex());
  connection_.database().exec(
      "PRAGMA foreign_keys=ON; CREATE TABLE p (id INTEGER PRIMARY KEY);"
      "CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)");
  Transaction transaction(connection_);
  Query(connection_, "INSERT INTO c VALUES (7)").Run();
  EXPECT_THROW(transaction.Commit(), SQLite::Exception);
  EXPECT_EQ(commits_.size(), 1u);
}

TEST_F(ConnectionTest, ValuesOfEveryTypeComeBack) {
  absl::MutexLock lock(&connection_.mutex());
  const int64_t big = std::numeric_limits<int64_t>::min();
  const std::string text("a\0b\xff", 4);
  Query query(connection_, "SELECT ?, ?, ?, ?, ?, ?, ?", text, big, 0.1,
              std::optional<std::string>(), std::optional<int64_t>(7),
              std::optional<double>(), 12);
  ASSERT_TRUE(query.Next());
  EXPECT_EQ(query.Text(), text);
  EXPECT_EQ(query.Int(), big);
  EXPECT_EQ(query.Real(), 0.1);
  EXPECT_EQ(query.OptionalText(), std::nullopt);
  EXPECT_EQ(query.OptionalInt(), 7);
  EXPECT_EQ(query.OptionalReal(), std::nullopt);
  EXPECT_EQ(query.Int(), 12);
  EXPECT_FALSE(query.Next());
}

TEST_F(ConnectionTest, AQueryStartsAfreshWithoutOldParameters) {
  absl::MutexLock lock(&connection_.mutex());
  {
    Query query(connection_, "SELECT ?1, ?2", 1, 2);
    ASSERT_TRUE(query.Next());
  }
  Query query(connection_, "SELECT ?1, ?2", 3);
  ASSERT_TRUE(query.Next());
  EXPECT_EQ(query.Int(), 3);
  EXPECT_EQ(query.OptionalInt(), std::nullopt);
}

TEST_F(ConnectionTest, AnUnfinishedSelectEndsWithItsQuery) {
  absl::MutexLock lock(&connection_.mutex());
  EXPECT_EQ(Query(connection_, "INSERT INTO t VALUES (1, 2), (3, 4)").Run(), 2);
  {
    Query query(connection_, "SELECT a FROM t");
    ASSERT_TRUE(query.Next());
  }
  // A statement still running would hold the table.
  EXPECT_NO_THROW(connection_.database().exec("DROP TABLE t"));
}

TEST_F(ConnectionTest, AFailedRunLeavesTheStatementUsable) {
  absl::MutexLock lock(&connection_.mutex());
  connection_.database().exec("CREATE TABLE u (a INTEGER PRIMARY KEY)");
  const std::string insert = "INSERT INTO u VALUES (?)";
  Query(connection_, insert, 1).Run();
  EXPECT_THROW(Query(connection_, insert, 1).Run(), SQLite::Exception);
  EXPECT_EQ(Query(connection_, insert, 2).Run(), 1);
}

TEST_F(ConnectionTest, DurabilityIsThePragma) {
  absl::MutexLock lock(&connection_.mutex());
  const auto synchronous = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return connection_.database().execAndGet("PRAGMA synchronous").getInt();
  };
  connection_.SetDurability(Connection::Durability::kProcess);
  EXPECT_EQ(synchronous(), 1);
  connection_.SetDurability(Connection::Durability::kPowerCut);
  EXPECT_EQ(synchronous(), 2);
}

constexpr char kForever[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT count(*) FROM n";
constexpr char kShort[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT "
    "200000) SELECT count(*) FROM n";

absl::Status Execute(Connection& c, const char* sql)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  return CatchSqlite("counting", [&] {
    Query query(c, sql);
    query.Next();
    return absl::OkStatus();
  });
}

TEST(TimeLimit, EndsWhatRunsTooLongAndNothingElse) {
  Connection c(SQLite::Database(":memory:", SQLite::OPEN_READWRITE));
  absl::MutexLock lock(&c.mutex());
  const absl::Time start = absl::Now();
  {
    const TimeLimit limit(c, absl::Milliseconds(50));
    EXPECT_TRUE(absl::IsDeadlineExceeded(Execute(c, kForever)));
    EXPECT_GE(absl::Now() - start, absl::Milliseconds(50));
    EXPECT_TRUE(absl::IsDeadlineExceeded(Execute(c, kForever)))
        << "once for all";
  }
  EXPECT_TRUE(Execute(c, kShort).ok()) << "the connection is as it was";
  const TimeLimit limit(c, absl::Minutes(1));
  EXPECT_TRUE(Execute(c, kShort).ok());
}

TEST(StatusOf, TranslatesTheCodesOfSqlite) {
  for (const auto& [code, expected] :
       {std::pair(SQLITE_FULL, kResourceExhausted),
        {SQLITE_BUSY, kUnavailable},
        {SQLITE_LOCKED, kUnavailable},
        {SQLITE_CORRUPT, kDataLoss},
        {SQLITE_NOTADB, kDataLoss},
        {SQLITE_READONLY, kPermissionDenied},
        {SQLITE_CANTOPEN, kPermissionDenied},
        {SQLITE_INTERRUPT, kDeadlineExceeded},
        {SQLITE_IOERR, kInternal},
        {SQLITE_MISUSE, kInternal}}) {
    EXPECT_THAT(StatusOf(SQLite::Exception("words", code), "saving x"),
                Fails(expected, "saving x: words"));
  }
}

absl::Status ExecuteOn(SQLite::Database& database, const char* sql) {
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
  EXPECT_THAT(ExecuteOn(database, "INSERT INTO t VALUES (1, 2, 1)"),
              Fails(kAlreadyExists));
  EXPECT_THAT(ExecuteOn(database, "INSERT INTO t VALUES (2, 1, 1)"),
              Fails(kAlreadyExists));
  EXPECT_THAT(ExecuteOn(database, "UPDATE t SET c = 2"),
              Fails(kFailedPrecondition));
  EXPECT_THAT(ExecuteOn(database, "INSERT INTO t VALUES (2, 2, 0)"),
              Fails(kInternal));
  EXPECT_TRUE(ExecuteOn(database, "INSERT INTO t VALUES (2, 2, 2)").ok());
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
