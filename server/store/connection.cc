// SPDX-License-Identifier: Apache-2.0
#include "server/store/connection.h"

#include <sqlite3.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"

namespace mpsd::store {

namespace {

// Reports the object's lifetime to the connection. A failed commit throws, and
// on a dying disk it does so late.
class CommitTimer {
 public:
  explicit CommitTimer(const Connection& connection)
      : connection_(connection) {}
  ~CommitTimer() { connection_.Committed(clock_.Monotonic() - start_); }
  CommitTimer(const CommitTimer&) = delete;
  CommitTimer& operator=(const CommitTimer&) = delete;

 private:
  const Connection& connection_;
  const base::Clock& clock_ = base::Clock::Real();
  const absl::Duration start_ = clock_.Monotonic();
};

}  // namespace

void Connection::SetDurability(Durability durability) {
  if (durability_ == durability) return;
  database_.exec(durability == Durability::kPowerCut
                     ? "PRAGMA synchronous=FULL"
                     : "PRAGMA synchronous=NORMAL");
  durability_ = durability;
}

std::shared_ptr<SQLite::Statement> Connection::Prepared(
    const std::string& sql) {
  const auto found =
      std::find_if(statements_.begin(), statements_.end(),
                   [&](const Kept& kept) { return kept.sql == sql; });
  if (found != statements_.end()) {
    statements_.splice(statements_.begin(), statements_, found);
    return statements_.front().statement;
  }
  statements_.push_front(
      {sql, std::make_shared<SQLite::Statement>(database_, sql)});
  // A Query that runs shares the ownership of its statement, so this finalizes
  // none in use.
  if (statements_.size() > kKeptStatements) statements_.pop_back();
  return statements_.front().statement;
}

void Transaction::Commit() {
  const CommitTimer timer(connection_);
  transaction_.commit();
}

Query::~Query() {
  // tryReset, because reset would throw the failed step's error a second time.
  statement_.tryReset();
  try {
    statement_.clearBindings();
  } catch (const SQLite::Exception&) {
    // The next Query binds every parameter anew, so the old values may stay.
  }
}

namespace {

// SQLite's virtual machine executes this many instructions between two checks
// of the clock: a fraction of a millisecond, or the pages of a few texts.
constexpr int kInstructions = 1000;

}  // namespace

TimeLimit::TimeLimit(Connection& connection, absl::Duration limit)
    : handle_(connection.database().getHandle()),
      end_(std::chrono::steady_clock::now() +
           absl::ToChronoNanoseconds(limit)) {
  sqlite3_progress_handler(handle_, kInstructions, &TimeLimit::IsOver, this);
}

TimeLimit::~TimeLimit() {
  sqlite3_progress_handler(handle_, 0, nullptr, nullptr);
}

int TimeLimit::IsOver(void* limit) {
  const auto* self = static_cast<const TimeLimit*>(limit);
  return std::chrono::steady_clock::now() < self->end_ ? 0 : 1;
}

namespace {

absl::Status ConstraintStatus(int extended_code, const std::string& text) {
  switch (extended_code) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
      return absl::AlreadyExistsError(text);
    case SQLITE_CONSTRAINT_TRIGGER:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace

absl::Status StatusOf(const SQLite::Exception& error, const std::string& what) {
  const std::string text = absl::StrCat(what, ": ", error.what());
  switch (error.getErrorCode()) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; free space on the state folder's disk"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(
          absl::StrCat(text, "; another program holds the database"));
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(
          absl::StrCat(text,
                       "; restore mpsd.db from a backup, or move it away "
                       "to start with an empty queue"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
      return absl::PermissionDeniedError(
          absl::StrCat(text, "; mpsd needs to write its state folder"));
    case SQLITE_INTERRUPT:
      return absl::DeadlineExceededError(text);
    case SQLITE_CONSTRAINT:
      return ConstraintStatus(error.getExtendedErrorCode(), text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace mpsd::store
