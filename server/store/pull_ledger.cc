// SPDX-License-Identifier: Apache-2.0
#include "server/store/pull_ledger.h"

#include "absl/synchronization/mutex.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {

absl::Status PullLedger::Add(const std::string& model, const std::string& user,
                             int64_t bytes) {
  Connection& c = database_.writer();
  return CatchSqlite("counting a pull", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Query(c,
          "INSERT INTO pulled_bytes (user, model, size_bytes) VALUES (?, ?, ?) "
          "ON CONFLICT (user, model) DO UPDATE SET "
          "size_bytes = size_bytes + excluded.size_bytes",
          user, model, bytes)
        .Run();
    return absl::OkStatus();
  });
}

absl::Status PullLedger::Remove(const std::string& model) {
  Connection& c = database_.writer();
  return CatchSqlite("forgetting the pulls of a model", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Query(c, "DELETE FROM pulled_bytes WHERE model = ?", model).Run();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::map<std::string, PullLedger::Bytes>> PullLedger::All() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::map<std::string, Bytes>>;
  return CatchSqlite("reading the pulls", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::map<std::string, Bytes> all;
    Query row(c, "SELECT model, user, size_bytes FROM pulled_bytes");
    while (row.Next()) {
      Bytes& bytes = all[row.Text()];
      const std::string user = row.Text();
      bytes[user] = row.Int();
    }
    return all;
  });
}

}  // namespace mpsd::store
