// SPDX-License-Identifier: Apache-2.0
// What SqliteJobStore keeps for the verbs of a queue: who needs a job's files,
// jobs that begin from scratch, and the drained daemon.
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/store/connection.h"
#include "server/store/job_users.h"
#include "server/store/sqlite_job_store.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {

absl::StatusOr<std::string> SqliteJobStore::UserOf(const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::string>;
  return CatchSqlite(absl::StrCat("looking who needs the files of job ", id),
                     [&]() -> Result {
                       absl::MutexLock lock(&c.mutex());
                       return store::UserOf(c, id);
                     });
}

absl::Status SqliteJobStore::ForgetCheckpoints(const std::string& job_id) {
  Connection& c = database_.writer();
  return CatchSqlite(absl::StrCat("forgetting the checkpoints of job ", job_id),
                     [&] {
                       absl::MutexLock lock(&c.mutex());
                       c.SetDurability(Connection::Durability::kPowerCut);
                       Transaction transaction(c);
                       Query(c,
                             "DELETE FROM checkpoints WHERE job = "
                             "(SELECT number FROM jobs WHERE id = ?)",
                             job_id)
                           .Run();
                       transaction.Commit();
                       return absl::OkStatus();
                     });
}

absl::StatusOr<std::optional<std::string>> SqliteJobStore::Drain() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::optional<std::string>>;
  return CatchSqlite("reading whether the daemon is drained", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, "SELECT why FROM drain");
    if (!query.Next()) return std::optional<std::string>();
    return std::optional<std::string>(query.Text());
  });
}

absl::Status SqliteJobStore::SetDrain(const std::optional<std::string>& why) {
  Connection& c = database_.writer();
  return CatchSqlite("storing whether the daemon is drained", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    if (why) {
      Query(c, "INSERT OR REPLACE INTO drain (id, why) VALUES (1, ?)", *why)
          .Run();
    } else {
      Query(c, "DELETE FROM drain").Run();
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::store
