// SPDX-License-Identifier: Apache-2.0
#include "server/store/pull_store.h"

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {

absl::Status PullStore::Add(const models::KeptPull& pull) {
  Connection& c = database_.writer();
  return CatchSqlite("storing a pull", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    const int added =
        Query(c,
              "INSERT OR IGNORE INTO pulls (id, revision, user, commit_hash, "
              "begin_time_us) VALUES (?, ?, ?, ?, ?)",
              pull.id, pull.revision, pull.user, pull.commit,
              absl::ToUnixMicros(pull.begin_time))
            .Run();
    if (added == 1) return absl::OkStatus();
    return absl::AlreadyExistsError(
        absl::StrCat("a pull of ", pull.id, "@", pull.revision, " is stored"));
  });
}

absl::Status PullStore::SetCommit(const std::string& id,
                                  const std::string& revision,
                                  const std::string& commit) {
  Connection& c = database_.writer();
  return CatchSqlite("storing the commit of a pull", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Query(c, "UPDATE pulls SET commit_hash = ? WHERE id = ? AND revision = ?",
          commit, id, revision)
        .Run();
    return absl::OkStatus();
  });
}

absl::Status PullStore::Remove(const std::string& id,
                               const std::string& revision) {
  Connection& c = database_.writer();
  return CatchSqlite("forgetting a pull", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Query(c, "DELETE FROM pulls WHERE id = ? AND revision = ?", id, revision)
        .Run();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<models::KeptPull>> PullStore::List() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<models::KeptPull>>;
  return CatchSqlite("reading the pulls", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<models::KeptPull> pulls;
    Query row(c,
              "SELECT id, revision, user, commit_hash, begin_time_us "
              "FROM pulls ORDER BY number");
    while (row.Next()) {
      models::KeptPull& pull = pulls.emplace_back();
      pull.id = row.Text();
      pull.revision = row.Text();
      pull.user = row.Text();
      pull.commit = row.Text();
      pull.begin_time = absl::FromUnixMicros(row.Int());
    }
    return pulls;
  });
}

}  // namespace mpsd::store
