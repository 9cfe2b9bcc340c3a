// SPDX-License-Identifier: Apache-2.0
#include "server/store/token_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status_macros.h"
#include "server/store/database.h"

namespace mpsd::access {

using store::CatchSqlite;
using store::Connection;
using store::Query;
using store::Transaction;

namespace {

// The statements identify a token by the expression of the index tokens_by_id.
static_assert(kTokenIdDigits == 12);

std::optional<absl::Time> OptionalTime(std::optional<int64_t> micros) {
  if (!micros.has_value()) return std::nullopt;
  return absl::FromUnixMicros(*micros);
}

std::optional<int64_t> OptionalMicros(std::optional<absl::Time> time) {
  if (!time.has_value()) return std::nullopt;
  return absl::ToUnixMicros(*time);
}

absl::StatusOr<Token> ReadToken(Query& row) {
  Token token;
  token.sha256 = row.Text();
  token.user = row.Text();
  const int64_t number = row.Int();
  const std::optional<Role> role = report::Numbered(kRoles, number);
  if (!role.has_value()) {
    return absl::DataLossError(absl::StrCat(
        "token ", TokenId(token.sha256), " has the role ", number,
        ", which this mpsd does not know; run the newer mpsd that made it"));
  }
  token.role = *role;
  token.note = row.Text();
  token.create_time = absl::FromUnixMicros(row.Int());
  token.expire_time = OptionalTime(row.OptionalInt());
  token.last_use = OptionalTime(row.OptionalInt());
  token.created_by = row.Text();
  return token;
}

}  // namespace

absl::StatusOr<std::vector<Token>> Tokens::All() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<Token>>;
  return CatchSqlite("reading the tokens", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<Token> tokens;
    Query row(c,
              "SELECT sha256, user, role, note, create_time_us, "
              "expire_time_us, last_use_time_us, created_by FROM tokens "
              "ORDER BY number");
    while (row.Next()) {
      ASSIGN_OR_RETURN(Token token, ReadToken(row));
      tokens.push_back(std::move(token));
    }
    return tokens;
  });
}

absl::Status Tokens::Insert(const Token& token) {
  Connection& c = database_.writer();
  return CatchSqlite("storing a token", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    Query(c,
          "INSERT INTO tokens (sha256, user, role, note, create_time_us, "
          "expire_time_us, last_use_time_us, created_by) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
          token.sha256, token.user, static_cast<int>(token.role), token.note,
          absl::ToUnixMicros(token.create_time),
          OptionalMicros(token.expire_time), OptionalMicros(token.last_use),
          token.created_by)
        .Run();
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status Tokens::Remove(const std::string& id) {
  Connection& c = database_.writer();
  return CatchSqlite("removing a token", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    Query(c, "DELETE FROM tokens WHERE substr(sha256, 1, 12) = ?", id).Run();
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status Tokens::SetLastUses(
    absl::Span<const std::pair<std::string, absl::Time>> uses) {
  Connection& c = database_.writer();
  return CatchSqlite("noting when tokens were used", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Transaction transaction(c);
    for (const auto& [id, time] : uses) {
      Query(c,
            "UPDATE tokens SET last_use_time_us = ? "
            "WHERE substr(sha256, 1, 12) = ?",
            absl::ToUnixMicros(time), id)
          .Run();
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

namespace {

using Durability = Connection::Durability;

std::optional<int64_t> Number(const std::optional<absl::StatusCode>& code) {
  if (!code.has_value()) return std::nullopt;
  return static_cast<int64_t>(*code);
}

AuditEntry ReadEntry(Query& query) {
  AuditEntry entry;
  Caller& caller = entry.request.caller;
  entry.number = query.Int();
  entry.time = absl::FromUnixMicros(query.Int());
  caller.user = query.Text();
  caller.role = static_cast<Role>(query.Int());
  caller.way = static_cast<Way>(query.Int());
  caller.credential = query.Text();
  caller.origin = query.Text();
  entry.request.method = query.Text();
  entry.request.job_id = query.Text();
  entry.request.detail = query.Text();
  if (const std::optional<int64_t> result = query.OptionalInt()) {
    entry.result = static_cast<absl::StatusCode>(*result);
  }
  entry.message = query.Text();
  return entry;
}

// The optional conditions of a filter, so that SQLite can use an index; each
// takes one parameter, in this order: user, job_id, method. The other
// conditions are in every query.
std::string ListSql(const AuditFilter& filter) {
  std::string sql =
      "SELECT number, time_us, user, role, way, credential, origin, method, "
      "job_id, detail, result, message FROM audit WHERE number < ? "
      "AND time_us >= ? AND time_us < ?";
  if (!filter.user.empty()) sql += " AND user = ?";
  if (!filter.job_id.empty()) sql += " AND job_id = ?";
  if (filter.method.find('.') != std::string::npos) {
    sql += " AND method = ?";
  } else if (!filter.method.empty()) {
    sql += " AND substr(method, instr(method, '.') + 1) = ?";
  }
  if (filter.refused) sql += " AND result <> 0";
  return sql + " ORDER BY number DESC LIMIT ?";
}

// A time that a row cannot hold is replaced by the first or the last one.
int64_t Micros(absl::Time time) { return absl::ToUnixMicros(time); }

}  // namespace

absl::StatusOr<int64_t> AuditStore::Append(const AuditEntry& entry) {
  Connection& c = database_.writer();
  using Result = absl::StatusOr<int64_t>;
  return CatchSqlite("writing the audit", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kProcess);
    const Request& request = entry.request;
    Query(c,
          "INSERT INTO audit (time_us, user, role, way, credential, origin, "
          "method, job_id, detail, result, message) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          Micros(entry.time), request.caller.user,
          static_cast<int>(request.caller.role),
          static_cast<int>(request.caller.way), request.caller.credential,
          request.caller.origin, request.method, request.job_id, request.detail,
          Number(entry.result), entry.message)
        .Run();
    return c.database().getLastInsertRowid();
  });
}

absl::Status AuditStore::SetResult(int64_t number, const absl::Status& result,
                                   const std::string& job_id) {
  Connection& c = database_.writer();
  return CatchSqlite("writing the audit", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kProcess);
    Query(c,
          "UPDATE audit SET result = ?, message = ?, "
          "job_id = CASE ? WHEN '' THEN job_id ELSE ? END WHERE number = ?",
          static_cast<int64_t>(result.code()), std::string(result.message()),
          job_id, job_id, number)
        .Run();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<AuditEntry>> AuditStore::List(
    const AuditFilter& filter) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<AuditEntry>>;
  return CatchSqlite("reading the audit", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, ListSql(filter), filter.before, Micros(filter.since),
                Micros(filter.until));
    for (const std::string* text :
         {&filter.user, &filter.job_id, &filter.method}) {
      if (!text->empty()) query.Bind(*text);
    }
    query.Bind(filter.limit);
    std::vector<AuditEntry> entries;
    while (query.Next()) entries.push_back(ReadEntry(query));
    return entries;
  });
}

absl::StatusOr<int64_t> AuditStore::Prune(absl::Time time,
                                          int64_t most_entries) {
  Connection& c = database_.writer();
  using Result = absl::StatusOr<int64_t>;
  return CatchSqlite("removing old entries of the audit", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kProcess);
    const int64_t old =
        Query(c,
              "DELETE FROM audit WHERE number IN (SELECT number FROM audit "
              "WHERE time_us < ? ORDER BY time_us LIMIT ?)",
              Micros(time), kPruned)
            .Run();
    if (old > 0) return old;
    int64_t excess = 0;
    {
      Query count(c, "SELECT count(*) - ? FROM audit", most_entries);
      count.Next();
      excess = std::min(count.Int(), kPruned);
    }
    if (excess <= 0) return 0;
    return Query(c,
                 "DELETE FROM audit WHERE number IN (SELECT number FROM audit "
                 "WHERE user = (SELECT user FROM audit GROUP BY user "
                 "ORDER BY count(*) DESC, user LIMIT 1) ORDER BY number "
                 "LIMIT ?)",
                 excess)
        .Run();
  });
}

}  // namespace mpsd::access
