// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STORE_CONNECTION_H_
#define MPSD_SERVER_STORE_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "SQLiteCpp/Database.h"
#include "SQLiteCpp/Statement.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::store {

// One SQLite connection with its prepared statements. Locked (mutex()) around
// every use. What it calls throws SQLite::Exception: use inside Caught().
class Connection {
 public:
  enum class Durability {
    kPowerCut,  // each commit is fsynced
    kProcess,   // a commit survives the process; fsynced with a later one
  };

  explicit Connection(SQLite::Database database)
      : database_(std::move(database)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  absl::Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  SQLite::Database& database() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return database_;
  }

  // For the transactions to come; not inside one.
  void SetDurability(Durability durability)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // `sql` prepared, one of the last kKeptStatements where it was not used for
  // long. It must not outlive the connection.
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
  std::optional<Durability> durability_ ABSL_GUARDED_BY(mutex_);
  // The last used first; after database_: finalized before it closes.
  std::list<Kept> statements_ ABSL_GUARDED_BY(mutex_);
};

// One run of a prepared statement with its parameters, in order. Ends with it:
// an unfinished SELECT would keep the WAL from being checkpointed. At most one
// Query of the same SQL at a time.
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

  // Appends one more parameter.
  void Bind(const std::string& value) { statement_.bind(++bound_, value); }
  void Bind(int value) { statement_.bind(++bound_, value); }
  void Bind(int64_t value) { statement_.bind(++bound_, value); }
  void Bind(double value) { statement_.bind(++bound_, value); }
  template <typename T>
  void Bind(const std::optional<T>& value) {
    if (value.has_value()) {
      Bind(*value);
    } else {
      statement_.bind(++bound_);
    }
  }

  // The next row, or false.
  bool Next() {
    column_ = 0;
    return statement_.executeStep();
  }
  // Runs it to its end; returns the number of rows changed.
  int Run() { return statement_.exec(); }

  // The row's columns, left to right, one a call.
  std::string Text() { return statement_.getColumn(column_++).getString(); }
  int64_t Int() { return statement_.getColumn(column_++).getInt64(); }
  double Real() { return statement_.getColumn(column_++).getDouble(); }
  std::optional<std::string> OptionalText();
  std::optional<int64_t> OptionalInt();
  std::optional<double> OptionalReal();

 private:
  const std::shared_ptr<SQLite::Statement> owned_;
  SQLite::Statement& statement_;
  int bound_ = 0;
  int column_ = 0;
};

}  // namespace mpsd::store

#endif  // MPSD_SERVER_STORE_CONNECTION_H_
