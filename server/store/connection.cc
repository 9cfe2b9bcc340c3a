// SPDX-License-Identifier: Apache-2.0
#include "server/store/connection.h"

namespace mpsd::store {

void Connection::SetDurability(Durability durability) {
  if (durability_ == durability) return;
  database_.exec(durability == Durability::kPowerCut
                     ? "PRAGMA synchronous=FULL"
                     : "PRAGMA synchronous=NORMAL");
  durability_ = durability;
}

SQLite::Statement& Connection::Prepared(const std::string& sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    found = statements_.emplace(sql, SQLite::Statement(database_, sql)).first;
  }
  return found->second;
}

Query::~Query() {
  // tryReset repeats the code of a failed step, which was thrown then.
  statement_.tryReset();
  try {
    statement_.clearBindings();
  } catch (const SQLite::Exception&) {
    // Every parameter is bound anew by the next Query.
  }
}

std::optional<std::string> Query::OptionalText() {
  if (statement_.isColumnNull(column_)) return ++column_, std::nullopt;
  return Text();
}

std::optional<int64_t> Query::OptionalInt() {
  if (statement_.isColumnNull(column_)) return ++column_, std::nullopt;
  return Int();
}

std::optional<double> Query::OptionalReal() {
  if (statement_.isColumnNull(column_)) return ++column_, std::nullopt;
  return Real();
}

}  // namespace mpsd::store
