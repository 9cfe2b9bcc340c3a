// SPDX-License-Identifier: Apache-2.0
#include "server/store/model_uses.h"

#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "server/store/connection.h"
#include "server/store/sqlite_status.h"

namespace mpsd::store {
namespace {

constexpr char kReading[] = "reading which jobs use a model";
// A row that is no JSON names no folder.
constexpr char kFolder[] =
    "SELECT DISTINCT coalesce(json_extract(spec_json, '$.model'), '') "
    "FROM jobs WHERE json_valid(spec_json) AND ";

std::set<std::string> Texts(Query& query) {
  std::set<std::string> texts;
  while (query.Next()) texts.insert(query.Text());
  return texts;
}

}  // namespace

absl::StatusOr<std::map<std::string, ModelUses::Use>> ModelUses::All() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::map<std::string, Use>>;
  return CatchSqlite(kReading, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::map<std::string, Use> uses;
    {
      Query starts(c, "SELECT model, time_us FROM model_starts");
      while (starts.Next()) {
        const std::string model = starts.Text();
        uses[model].last_start = absl::FromUnixMicros(starts.Int());
      }
    }
    // QUEUED and RUNNING.
    Query jobs(c,
               "SELECT model, count(*) FROM jobs INDEXED BY jobs_by_model "
               "WHERE state IN (1, 2) GROUP BY model");
    while (jobs.Next()) {
      const std::string model = jobs.Text();
      uses[model].unfinished = static_cast<int32_t>(jobs.Int());
    }
    return uses;
  });
}

absl::StatusOr<std::set<std::string>> ModelUses::UnfinishedFolders() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::set<std::string>>;
  return CatchSqlite(kReading, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, std::string(kFolder) + "state IN (1, 2)");
    return Texts(query);
  });
}

absl::StatusOr<std::set<std::string>> ModelUses::FoldersOf(
    const std::string& model) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::set<std::string>>;
  return CatchSqlite(kReading, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, std::string(kFolder) + "model = ?", model);
    return Texts(query);
  });
}

}  // namespace mpsd::store
