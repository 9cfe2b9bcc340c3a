// SPDX-License-Identifier: Apache-2.0
#include "server/store/kept_jobs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status_macros.h"
#include "server/jobs/job.h"
#include "server/jobs/job_id.h"
#include "server/store/connection.h"
#include "server/store/job_row.h"

namespace mpsd::store {
namespace {

using jobs::State;

// Jobs read or written per lock of the connection.
constexpr int kReadAtOnce = 5000;
constexpr size_t kWrittenAtOnce = 500;

// The condition of the index jobs_naming_others, which SQLite must match.
constexpr char kNamingOthers[] =
    "SELECT id, after_jobs, spec_json FROM jobs INDEXED BY jobs_naming_others "
    "WHERE state IN (1, 2) AND (after_jobs <> '[]' "
    "OR instr(replace(spec_json, '/jobs/' || id || '/', ''), '/jobs/') > 0 "
    "OR instr(spec_json, '\"job:') > 0)";

// One owner's jobs at a time, so that SQLite compares no names.
constexpr char kNextOwner[] =
    "SELECT owner FROM jobs INDEXED BY jobs_kept "
    "WHERE state IN (3, 4, 5) AND end_time_us IS NOT NULL AND owner > ? "
    "ORDER BY owner LIMIT 1";
constexpr char kFirstOwner[] =
    "SELECT owner FROM jobs INDEXED BY jobs_kept "
    "WHERE state IN (3, 4, 5) AND end_time_us IS NOT NULL "
    "ORDER BY owner LIMIT 1";
constexpr char kEnded[] =
    "SELECT number, end_time_us, state, pinned, stored_bytes, "
    "stored_checkpoint_bytes FROM jobs INDEXED BY jobs_kept "
    "WHERE state IN (3, 4, 5) AND end_time_us IS NOT NULL AND owner = ? "
    "AND (end_time_us, number) > (?, ?) "
    "ORDER BY end_time_us, number LIMIT ?";

// A job that has not ended and needs others.
struct Needing {
  std::string id;
  std::set<std::string> files_of, ends_of;
};

std::vector<Needing> ReadNeeding(Connection& c)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  std::vector<Needing> found;
  Query query(c, kNamingOthers);
  while (query.Next()) {
    Needing& job = found.emplace_back();
    job.id = query.Text();
    const absl::StatusOr<std::vector<std::string>> after =
        DecodeColumn<std::vector<std::string>>(query.Text());
    if (after.ok()) job.ends_of.insert(after->begin(), after->end());
    job.files_of = jobs::JobMentions(query.Text());
    job.files_of.erase(job.id);
  }
  return found;
}

std::set<int64_t> NeededNumbers(Connection& c)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  std::set<std::string> ids;
  for (Needing& job : ReadNeeding(c)) {
    ids.merge(std::move(job.files_of));
    ids.merge(std::move(job.ends_of));
  }
  std::set<int64_t> numbers;
  for (const std::string& id : ids) {
    Query query(c, "SELECT number FROM jobs WHERE id = ?", id);
    if (query.Next()) numbers.insert(query.Int());
  }
  return numbers;
}

// Reads at most kReadAtOnce jobs after those that `owner` has. Returns whether
// there may be more.
bool ReadEnded(Connection& c, const std::set<int64_t>& needed,
               jobs::KeptOwner& owner)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  int64_t end = INT64_MIN, number = INT64_MIN;
  if (!owner.jobs.empty()) {
    end = absl::ToUnixMicros(owner.jobs.back().ended);
    number = owner.jobs.back().number;
  }
  int read = 0;
  for (Query query(c, kEnded, owner.name, end, number, kReadAtOnce);
       query.Next(); ++read) {
    jobs::KeptJob& job = owner.jobs.emplace_back();
    job.number = query.Int();
    job.ended = absl::FromUnixMicros(query.Int());
    job.succeeded = static_cast<State>(query.Int()) == State::kSucceeded;
    const bool pinned = query.Int() != 0;
    job.bound = pinned || needed.contains(job.number);
    job.bytes = query.Int();
    job.checkpoint_bytes = std::min(query.Int(), job.bytes);
  }
  return read == kReadAtOnce;
}

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("no job ", id));
}

// `ended`: for a rule, the end that it was applied to.
absl::Status CheckRemoval(Connection& c, const std::string& id,
                          std::optional<absl::Time> ended)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(c, "SELECT state, pinned, end_time_us FROM jobs WHERE id = ?",
              id);
  if (!query.Next()) return NoSuchJob(id);
  const auto state = static_cast<State>(query.Int());
  const bool pinned = query.Int() != 0;
  const std::optional<int64_t> end = query.OptionalInt();
  if (!jobs::IsFinal(state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", std::string(jobs::Name(state)),
                     ": cancel it, and delete it once it has ended"));
  }
  if (ended && end != absl::ToUnixMicros(*ended)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " ran again since the rules were applied"));
  }
  if (pinned) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", id, " is pinned: unpin it first (`mpsctl unpin ", id, "`)"));
  }
  for (const Needing& job : ReadNeeding(c)) {
    const bool files = job.files_of.contains(id);
    if (!files && !(ended && job.ends_of.contains(id))) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, ", which has not ended, ",
                     files ? "uses files of job " : "waits for job ", id,
                     ": wait for it or cancel it first"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<jobs::KeptOwner>> KeptJobs::Ended() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::KeptOwner>>;
  return CatchSqlite("reading the jobs that have ended", [&]() -> Result {
    std::set<int64_t> needed;
    {
      absl::MutexLock lock(&c.mutex());
      needed = NeededNumbers(c);
    }
    std::vector<jobs::KeptOwner> owners;
    bool more = false;
    while (true) {
      absl::MutexLock lock(&c.mutex());
      if (!more) {
        // An owner without a name sorts first.
        Query query(c, owners.empty() ? kFirstOwner : kNextOwner);
        if (!owners.empty()) query.Bind(owners.back().name);
        if (!query.Next()) break;
        owners.push_back({query.Text(), {}});
      }
      more = ReadEnded(c, needed, owners.back());
    }
    return owners;
  });
}

absl::StatusOr<std::vector<jobs::NamedJob>> KeptJobs::Names(
    absl::Span<const int64_t> numbers) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::NamedJob>>;
  return CatchSqlite("reading the names of jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<jobs::NamedJob> named;
    for (const int64_t number : numbers) {
      Query query(c, "SELECT id, name FROM jobs WHERE number = ?", number);
      if (!query.Next()) continue;
      jobs::NamedJob& job = named.emplace_back();
      job.number = number;
      job.id = query.Text();
      job.name = query.Text();
    }
    return named;
  });
}

absl::Status KeptJobs::MayRemove(const std::string& id, absl::Time ended) {
  // The writer's connection: it sees every commit.
  Connection& c = database_.writer();
  return CatchSqlite(absl::StrCat("reading job ", id), [&] {
    absl::MutexLock lock(&c.mutex());
    return CheckRemoval(c, id, ended);
  });
}

absl::Status KeptJobs::MayDelete(const std::string& id) {
  Connection& c = database_.reader();
  return CatchSqlite(absl::StrCat("reading job ", id), [&] {
    absl::MutexLock lock(&c.mutex());
    return CheckRemoval(c, id, std::nullopt);
  });
}

absl::Status KeptJobs::SetPinned(const std::string& id, bool pinned) {
  Connection& c = database_.writer();
  return CatchSqlite(absl::StrCat("pinning job ", id), [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    const int changed =
        Query(c, "UPDATE jobs SET pinned = ? WHERE id = ?", pinned ? 1 : 0, id)
            .Run();
    if (changed == 0) return NoSuchJob(id);
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status KeptJobs::SetBytes(absl::Span<const jobs::FolderBytes> folders) {
  Connection& c = database_.writer();
  return CatchSqlite("storing the bytes of jobs", [&] {
    for (size_t begin = 0; begin < folders.size(); begin += kWrittenAtOnce) {
      absl::MutexLock lock(&c.mutex());
      // What a power cut loses is measured again.
      c.SetDurability(Connection::Durability::kProcess);
      Transaction transaction(c);
      for (const auto& folder : folders.subspan(begin, kWrittenAtOnce)) {
        Query(c,
              "UPDATE jobs SET stored_bytes = ?1, stored_checkpoint_bytes = ?2 "
              "WHERE id = ?3 AND (stored_bytes <> ?1 OR "
              "stored_checkpoint_bytes <> ?2)",
              folder.bytes, folder.checkpoint_bytes, folder.id)
            .Run();
      }
      transaction.Commit();
    }
    return absl::OkStatus();
  });
}

absl::Status KeptJobs::ForgetCheckpoints(const std::string& id,
                                         absl::Time ended) {
  Connection& c = database_.writer();
  const std::string what = absl::StrCat("forgetting checkpoints of job ", id);
  return CatchSqlite(what, [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    RETURN_IF_ERROR(CheckRemoval(c, id, ended));
    Query(c,
          "DELETE FROM checkpoints WHERE job = "
          "(SELECT number FROM jobs WHERE id = ?)",
          id)
        .Run();
    // A job that is retried begins from scratch.
    Query(c,
          "UPDATE jobs SET durable_step = 0, stored_checkpoint_bytes = 0, "
          "stored_bytes = max(0, stored_bytes - stored_checkpoint_bytes) "
          "WHERE id = ?",
          id)
        .Run();
    transaction.Commit();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::store
