// SPDX-License-Identifier: Apache-2.0
#include "server/store/connection.h"

#include <algorithm>

namespace mpsd::store {

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
