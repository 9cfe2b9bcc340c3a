// SPDX-License-Identifier: Apache-2.0
#include "server/store/connection.h"

#include <algorithm>

#include "core/base/clock.h"

namespace mpsd::store {
namespace {

// Tells the connection how long the object lived. A commit that fails throws,
// and on a disk that is about to die it does so late.
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

}  // namespace mpsd::store
