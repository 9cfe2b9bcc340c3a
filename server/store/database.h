// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Exception.h"
#include "SQLiteCpp/Statement.h"
#include "SQLiteCpp/Transaction.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace mpsd::store {

// One SQLite connection with its prepared statements. The caller holds mutex()
// around every use. SQLite throws SQLite::Exception: use the connection inside
// CatchSqlite().
class Connection {
 public:
  enum class Durability {
    kPowerCut,  // each commit is fsynced
    kProcess,   // a commit survives a kill; a later one fsyncs it
  };

  // Gets the wall time of a commit, even of a failed one. Called with the
  // connection's mutex held: it neither blocks nor uses the connection.
  using OnCommit = std::function<void(absl::Duration)>;

  explicit Connection(SQLite::Database database, OnCommit on_commit = {})
      : database_(std::move(database)), on_commit_(std::move(on_commit)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  SQLite::Database& database() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return database_;
  }

  // Applies to later transactions; not callable inside a transaction.
  void SetDurability(Durability durability)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Transaction reports a commit here.
  void Committed(absl::Duration duration) const {
    if (on_commit_) on_commit_(duration);
  }

  // Returns `sql` prepared; the connection keeps the last kKeptStatements used.
  // The statement must not outlive the connection.
  static constexpr size_t kKeptStatements = 64;
  std::shared_ptr<SQLite::Statement> Prepared(const std::string& sql)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t kept_statements() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return statements_.size();
  }

 private:
  struct Kept {
    std::string sql;
    std::shared_ptr<SQLite::Statement> statement;
  };

  absl::Mutex mutex_;
  SQLite::Database database_ ABSL_GUARDED_BY(mutex_);
  const OnCommit on_commit_;
  std::optional<Durability> durability_ ABSL_GUARDED_BY(mutex_);
  // Most recently used first. Declared after database_, because the statements
  // must be finalized before the database closes.
  std::list<Kept> statements_ ABSL_GUARDED_BY(mutex_);
};

// A write transaction; rolled back if it is destroyed without Commit.
class Transaction {
 public:
  // `connection` must outlive the transaction.
  explicit Transaction(Connection& connection)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex())
      : connection_(connection),
        transaction_(connection.database(),
                     SQLite::TransactionBehavior::IMMEDIATE) {}

  void Commit();

 private:
  Connection& connection_;
  SQLite::Transaction transaction_;
};

// A parameter that is a BLOB.
struct Blob {
  const std::string& bytes;
};

// One run of a prepared statement with its parameters, in order. The destructor
// resets the statement: an unfinished SELECT would keep the WAL from being
// checkpointed. At most one Query of the same SQL at a time.
class Query {
 public:
  template <typename... Values>
  Query(Connection& connection, const std::string& sql, const Values&... values)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex())
      : owned_(connection.Prepared(sql)), statement_(*owned_) {
    (Bind(values), ...);
  }
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  // Binds the next parameter.
  void Bind(const std::string& value) { statement_.bind(++bound_, value); }
  void Bind(int value) { statement_.bind(++bound_, value); }
  void Bind(int64_t value) { statement_.bind(++bound_, value); }
  void Bind(double value) { statement_.bind(++bound_, value); }
  void Bind(const Blob& value) {
    statement_.bind(++bound_, value.bytes.data(),
                    static_cast<int>(value.bytes.size()));
  }
  template <typename T>
  void Bind(const std::optional<T>& value) {
    if (value.has_value()) {
      Bind(*value);
    } else {
      statement_.bind(++bound_);
    }
  }

  // Steps to the next row; false after the last.
  bool Next() {
    column_ = 0;
    return statement_.executeStep();
  }
  // Runs the statement to its end; returns the number of rows changed.
  int Run() { return statement_.exec(); }

  // Each call returns the row's next column, from left to right.
  std::string Text() { return statement_.getColumn(column_++).getString(); }
  int64_t Int() { return statement_.getColumn(column_++).getInt64(); }
  double Real() { return statement_.getColumn(column_++).getDouble(); }
  // Absent for NULL.
  std::optional<std::string> OptionalText() { return Or(&Query::Text); }
  std::optional<int64_t> OptionalInt() { return Or(&Query::Int); }
  std::optional<double> OptionalReal() { return Or(&Query::Real); }

 private:
  template <typename T>
  std::optional<T> Or(T (Query::*read)()) {
    if (statement_.isColumnNull(column_)) return ++column_, std::nullopt;
    return (this->*read)();
  }

  const std::shared_ptr<SQLite::Statement> owned_;
  SQLite::Statement& statement_;
  int bound_ = 0;
  int column_ = 0;
};

// While it exists, what runs on the connection ends `limit` after its creation,
// with an error that StatusOf makes DeadlineExceeded. One per connection at a
// time.
class TimeLimit {
 public:
  TimeLimit(Connection& connection, absl::Duration limit)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(connection.mutex());
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  static int IsOver(void* limit);

  sqlite3* const handle_;
  const std::chrono::steady_clock::time_point end_;
};

// The status for a failed call of SQLite:
//   FULL → ResourceExhausted, BUSY and LOCKED → Unavailable, CORRUPT and NOTADB
//   → DataLoss, UNIQUE and PRIMARY KEY → AlreadyExists, RAISE in a trigger →
//   FailedPrecondition, READONLY, PERM and CANTOPEN → PermissionDenied,
//   INTERRUPT (TimeLimit) → DeadlineExceeded, IOERR and all others →
//   Internal.
// The text is "<what>: <SQLite's words>", with what to do where that helps.
absl::Status StatusOf(const SQLite::Exception& error, const std::string& what);

// Returns body(), which returns absl::Status or absl::StatusOr<T>, or a status
// for the exception that body() throws. The only catch in this room.
template <typename Body>
auto CatchSqlite(const std::string& what, Body&& body) -> decltype(body()) {
  try {
    return std::forward<Body>(body)();
  } catch (const SQLite::Exception& error) {
    return StatusOf(error, what);
  }
}

// mpsd's PRAGMA application_id: the bytes of "mpsd".
inline constexpr int32_t kApplicationId = 0x6d707364;

struct Migration {
  const char* name;  // "0001_initial"
  const char* sql;
};

// migrations/*.sql in order. The schema version is their number; PRAGMA
// user_version says how many of them a database has.
absl::Span<const Migration> AllMigrations();

// Brings the database to the newest version, each missing migration in one
// transaction, and returns that version. A failed migration leaves the database
// at the version before it. FailedPrecondition, the file untouched, if
//   - it was written by a newer mpsd,
//   - it is another program's.
absl::StatusOr<int64_t> Migrate(SQLite::Database& database,
                                absl::Span<const Migration> migrations);

// The state folder's SQLite file, with one connection that writes and two that
// only read, so that a reader never waits for a writer's fsync (WAL), and a
// read of one job never for a list of all of them. Thread-safe. The database
// must outlive the stores that use it.
class Database {
 public:
  // Opens or creates `path` and migrates it. Only its owner may read a new
  // file. Errors as in Migrate and StatusOf. `on_commit`: as in Connection;
  // called on any thread. ":memory:", for tests, is a database that ends with
  // the object and that one connection writes and reads.
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const std::filesystem::path& path, Connection::OnCommit on_commit = {});

  Connection& writer() { return *writer_; }
  Connection& reader() { return reader_ ? *reader_ : *writer_; }
  Connection& lister() { return lister_ ? *lister_ : *writer_; }
  int64_t schema_version() const { return schema_version_; }

 private:
  Database(std::unique_ptr<Connection> writer,
           std::unique_ptr<Connection> reader,
           std::unique_ptr<Connection> lister, int64_t schema_version)
      : writer_(std::move(writer)),
        reader_(std::move(reader)),
        lister_(std::move(lister)),
        schema_version_(schema_version) {}

  const std::unique_ptr<Connection> writer_;
  const std::unique_ptr<Connection> reader_;  // null: in memory
  const std::unique_ptr<Connection> lister_;  // likewise
  const int64_t schema_version_;
};

}  // namespace mpsd::store
