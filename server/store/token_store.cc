// SPDX-License-Identifier: Apache-2.0
#include "server/store/token_store.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace {

// The statements name a token by what the index tokens_by_id holds.
static_assert(access::kTokenIdDigits == 12);

std::optional<absl::Time> OptionalTime(std::optional<int64_t> micros) {
  if (!micros.has_value()) return std::nullopt;
  return absl::FromUnixMicros(*micros);
}

std::optional<int64_t> OptionalMicros(std::optional<absl::Time> time) {
  if (!time.has_value()) return std::nullopt;
  return absl::ToUnixMicros(*time);
}

absl::StatusOr<access::Token> ReadToken(Query& row) {
  access::Token token;
  token.sha256 = row.Text();
  token.user = row.Text();
  const int64_t number = row.Int();
  const std::optional<access::Role> role =
      report::Numbered(access::kRoles, number);
  if (!role.has_value()) {
    return absl::DataLossError(absl::StrCat(
        "token ", access::TokenId(token.sha256), " has the role ", number,
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

absl::StatusOr<std::vector<access::Token>> TokenStore::All() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<access::Token>>;
  return CatchSqlite("reading the tokens", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<access::Token> tokens;
    Query row(c,
              "SELECT sha256, user, role, note, create_time_us, "
              "expire_time_us, last_use_time_us, created_by FROM tokens "
              "ORDER BY number");
    while (row.Next()) {
      absl::StatusOr<access::Token> token = ReadToken(row);
      if (!token.ok()) return token.status();
      tokens.push_back(*std::move(token));
    }
    return tokens;
  });
}

absl::Status TokenStore::Insert(const access::Token& token) {
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

absl::Status TokenStore::Remove(const std::string& id) {
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

absl::Status TokenStore::SetLastUses(
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

}  // namespace mpsd::store
