// SPDX-License-Identifier: Apache-2.0
#include "server/store/owner_use.h"

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {

void PutUse(Connection& c, const jobs::OwnerUse& use) {
  Query(c,
        "INSERT OR REPLACE INTO owner_use (owner, seconds, time_us) "
        "VALUES (?, ?, ?)",
        use.owner, use.seconds, absl::ToUnixMicros(use.time))
      .Run();
}

absl::StatusOr<std::vector<jobs::OwnerUse>> ReadUses(Connection& c) {
  using Result = absl::StatusOr<std::vector<jobs::OwnerUse>>;
  return CatchSqlite("reading what owners used", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<jobs::OwnerUse> uses;
    Query query(c, "SELECT owner, seconds, time_us FROM owner_use");
    while (query.Next()) {
      jobs::OwnerUse& use = uses.emplace_back();
      use.owner = query.Text();
      use.seconds = query.Real();
      use.time = absl::FromUnixMicros(query.Int());
    }
    return uses;
  });
}

absl::Status RemoveUses(Connection& c, absl::Span<const std::string> owners) {
  return CatchSqlite("forgetting what owners used", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Transaction transaction(c);
    for (const std::string& owner : owners) {
      Query(c, "DELETE FROM owner_use WHERE owner = ?", owner).Run();
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::store
