// SPDX-License-Identifier: Apache-2.0
#include "server/store/ended_job_store.h"

#include <utility>

#include "absl/synchronization/mutex.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {

absl::StatusOr<std::vector<jobs::EndedJob>> EndedJobStore::After(int64_t number,
                                                                 int limit) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::EndedJob>>;
  return CatchSqlite("reading the ends of jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<jobs::EndedJob> ends;
    Query query(c,
                "SELECT ended_jobs.number, jobs.id, ended_jobs.state, "
                "ended_jobs.time_us, ended_jobs.message FROM ended_jobs "
                "JOIN jobs ON jobs.number = ended_jobs.job "
                "WHERE ended_jobs.number > ? ORDER BY ended_jobs.number "
                "LIMIT ?",
                number, limit);
    while (query.Next()) {
      jobs::EndedJob& end = ends.emplace_back();
      end.number = query.Int();
      end.job_id = query.Text();
      end.state = static_cast<jobs::State>(query.Int());
      end.time = absl::FromUnixMicros(query.Int());
      end.message = query.Text();
    }
    return ends;
  });
}

absl::Status EndedJobStore::Forget(int64_t number) {
  Connection& c = database_.writer();
  return CatchSqlite("forgetting the end of a job", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Query(c, "DELETE FROM ended_jobs WHERE number = ?", number).Run();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::store
