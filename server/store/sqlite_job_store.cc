// SPDX-License-Identifier: Apache-2.0
#include "server/store/sqlite_job_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "server/jobs/job.h"
#include "server/store/connection.h"
#include "server/store/job_list.h"
#include "server/store/job_row.h"

// The part of SqliteJobStore for the queue's verbs: which job needs a job's
// files, jobs that begin from scratch, and the drained daemon.

namespace mpsd::store {

std::string UserOf(Connection& c, const std::string& id) {
  Query query(c,
              "SELECT id FROM jobs WHERE state IN (?, ?) AND id <> ? "
              "AND (instr(spec_json, ?) > 0 OR instr(spec_json, ?) > 0) "
              "LIMIT 1",
              static_cast<int>(jobs::State::kQueued),
              static_cast<int>(jobs::State::kRunning), id,
              absl::StrCat("/jobs/", id, "/"),
              absl::StrCat("\"job:", id, "\""));
  return query.Next() ? query.Text() : "";
}

std::map<std::string, jobs::State> StatesOf(Connection& c,
                                            absl::Span<const std::string> ids) {
  std::map<std::string, jobs::State> states;
  for (const std::string& id : ids) {
    Query query(c, "SELECT state FROM jobs WHERE id = ?", id);
    if (query.Next()) states[id] = static_cast<jobs::State>(query.Int());
  }
  return states;
}

void ForgetSuccess(Connection& c, const std::string& id) {
  // A damaged list, which is not JSON, keeps no job from deletion.
  Query(c,
        "UPDATE jobs SET after_jobs = (SELECT json_group_array(value) "
        "FROM json_each(after_jobs) WHERE value <> ?) "
        "WHERE state = ? AND instr(after_jobs, ?) > 0 "
        "AND json_valid(after_jobs)",
        id, static_cast<int>(jobs::State::kQueued), id)
      .Run();
}

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

namespace {

// One in kStride progress events is kept once it is older than this many
// sequences.
constexpr int64_t kProgressKept = 1000;
constexpr int64_t kStride = 10;

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("no job ", id));
}

// The parts of the stored row that Update needs.
struct Stored {
  int64_t number = 0;
  jobs::State state = jobs::State::kQueued;
  bool cancel_requested = false;
};

std::optional<Stored> Find(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(
      c, "SELECT number, state, cancel_requested FROM jobs WHERE id = ?", id);
  if (!query.Next()) return std::nullopt;
  Stored stored;
  stored.number = query.Int();
  stored.state = static_cast<jobs::State>(query.Int());
  stored.cancel_requested = query.Int() != 0;
  return stored;
}

void AppendEvent(Connection& c, int64_t number, const jobs::Event& event)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query(c,
        "INSERT INTO events (job, sequence, time_us, kind, body) "
        "VALUES (?, ?, ?, ?, ?)",
        number, event.sequence, absl::ToUnixMicros(event.time),
        KindOf(event.body), EncodeBody(event.body))
      .Run();
  // Each append thins one old event, so that no transaction ever has many to
  // delete.
  const int64_t aged = event.sequence - kProgressKept;
  if (aged <= 0 || aged % kStride == 0) return;
  Query(c, "DELETE FROM events WHERE job = ? AND sequence = ? AND kind = ?",
        number, aged, kProgressKind)
      .Run();
}

// Adds a job's row, labels and first event.
void InsertRow(Connection& c, const jobs::Job& job, const jobs::Event& first)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  {
    Query insert(c, InsertJobSql());
    BindFixed(insert, job);
    BindChanging(insert, job);
    insert.Run();
  }
  const int64_t number = c.database().getLastInsertRowid();
  for (const auto& [key, value] : job.labels) {
    Query(c, "INSERT INTO labels (job, key, value) VALUES (?, ?, ?)", number,
          key, value)
        .Run();
  }
  AppendEvent(c, number, first);
}

// The sequence of a job's last event; 0 for none.
int64_t LastEvent(Connection& c, int64_t number)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(c, "SELECT max(sequence) FROM events WHERE job = ?", number);
  query.Next();
  return query.OptionalInt().value_or(0);
}

// A power cut may lose such an update: the job resumes from its last checkpoint
// and repeats those steps anyway. A state or a cancel was acknowledged.
bool IsProgressOnly(const jobs::Job& job, const Stored& stored,
                    absl::Span<const jobs::Event> events) {
  return !events.empty() && job.state == stored.state &&
         job.cancel_requested == stored.cancel_requested &&
         std::all_of(events.begin(), events.end(), [](const auto& event) {
           return KindOf(event.body) == kProgressKind;
         });
}

template <typename... Values>
absl::StatusOr<std::optional<jobs::Job>> SelectOne(Connection& c,
                                                   const std::string& where,
                                                   const Values&... values)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(
      c, absl::StrCat("SELECT ", WholeColumns(), " FROM jobs WHERE ", where),
      values...);
  if (!query.Next()) return std::optional<jobs::Job>();
  ASSIGN_OR_RETURN(JobRow row, ReadJobRow(query));
  // The row's query is still open, so the labels come from the same snapshot of
  // the database.
  ReadLabels(c, row);
  return std::optional<jobs::Job>(std::move(row.job));
}

absl::StatusOr<std::vector<std::string>> IdsWhere(Connection& c,
                                                  const char* condition) {
  using Result = absl::StatusOr<std::vector<std::string>>;
  return CatchSqlite("listing the ids of jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<std::string> ids;
    Query query(c, absl::StrCat("SELECT id FROM jobs WHERE ", condition,
                                " ORDER BY id"));
    while (query.Next()) ids.push_back(query.Text());
    return ids;
  });
}

// The index of ids serves the first condition; the others read few rows.
constexpr char kFindByIdPart[] =
    "SELECT * FROM (SELECT id, name, state, owner FROM jobs "
    "WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?) "
    "UNION SELECT id, name, state, owner FROM (SELECT id, name, state, owner "
    "FROM jobs "
    "ORDER BY id DESC LIMIT ?) WHERE substr(id, ?) = ? "
    "UNION SELECT id, name, state, owner FROM jobs "
    "WHERE state IN (?, ?) AND substr(id, ?) = ? "
    "ORDER BY id DESC LIMIT ?";

}  // namespace

absl::Status SqliteJobStore::Insert(const jobs::Job& job,
                                    const jobs::Event& first) {
  Connection& c = database_.writer();
  return CatchSqlite(absl::StrCat("storing job ", job.id), [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    InsertRow(c, job, first);
    IndexChangedTexts(c);
    transaction.Commit();
    // Count follows the commit, because a rollback changes no count, and keeps
    // the writer's lock, so that a CountByState that reads the rows neither
    // misses a change nor counts one twice.
    Count(std::nullopt, job.state);
    return absl::OkStatus();
  });
}

absl::Status SqliteJobStore::Update(const jobs::Job& job,
                                    absl::Span<const jobs::Event> events,
                                    const jobs::OwnerUse* use) {
  Connection& c = database_.writer();
  return CatchSqlite(
      absl::StrCat("updating job ", job.id), [&]() -> absl::Status {
        absl::MutexLock lock(&c.mutex());
        // The connection that writes reads too, under one lock, so that the
        // state cannot change before the transaction begins.
        const std::optional<Stored> stored = Find(c, job.id);
        if (!stored) return NoSuchJob(job.id);
        if (job.state != stored->state &&
            !jobs::CanTransition(stored->state, job.state)) {
          return absl::FailedPreconditionError(absl::StrCat(
              "job ", job.id, " is ", std::string(jobs::Name(stored->state)),
              " and cannot become ", std::string(jobs::Name(job.state))));
        }
        c.SetDurability(IsProgressOnly(job, *stored, events)
                            ? Connection::Durability::kProcess
                            : Connection::Durability::kPowerCut);
        Transaction transaction(c);
        {
          Query update(c, UpdateJobSql());
          BindChanging(update, job);
          update.Bind(stored->number);
          update.Run();
        }
        for (const jobs::Event& event : events) {
          AppendEvent(c, stored->number, event);
        }
        if (use != nullptr) PutUse(c, *use);
        IndexChangedTexts(c);
        transaction.Commit();
        Count(stored->state, job.state);
        return absl::OkStatus();
      });
}

absl::Status SqliteJobStore::AddCheckpoint(const std::string& job_id,
                                           const jobs::Checkpoint& checkpoint) {
  Connection& c = database_.writer();
  const std::string what = absl::StrCat("storing a checkpoint of job ", job_id);
  return CatchSqlite(what, [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, job_id);
    if (!stored) return NoSuchJob(job_id);
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    for (const std::string& path : checkpoint.removed_paths) {
      Query(c, "DELETE FROM checkpoints WHERE job = ? AND path = ?",
            stored->number, path)
          .Run();
    }
    Query(c,
          "INSERT OR REPLACE INTO checkpoints "
          "(job, step, path, size_bytes, seconds, create_time_us) "
          "VALUES (?, ?, ?, ?, ?, ?)",
          stored->number, checkpoint.step, checkpoint.path, checkpoint.bytes,
          checkpoint.seconds, absl::ToUnixMicros(checkpoint.create_time))
        .Run();
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status SqliteJobStore::Delete(const std::string& id) {
  Connection& c = database_.writer();
  return CatchSqlite(absl::StrCat("deleting job ", id), [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, id);
    if (!stored) return NoSuchJob(id);
    if (!jobs::IsFinal(stored->state)) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is ",
                       std::string(jobs::Name(stored->state)), " again"));
    }
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    if (const std::string user = store::UserOf(c, id); !user.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "job ", user, ", which has not ended, uses files of job ", id,
          ": wait for it or cancel it first"));
    }
    if (stored->state == jobs::State::kSucceeded) ForgetSuccess(c, id);
    // The foreign keys delete labels, events and checkpoints with the row.
    if (Query(c, "DELETE FROM jobs WHERE number = ? AND pinned = 0",
              stored->number)
            .Run() == 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "job ", id, " is pinned: unpin it first (`mpsctl unpin ", id, "`)"));
    }
    IndexChangedTexts(c);
    transaction.Commit();
    Count(stored->state, std::nullopt);
    return absl::OkStatus();
  });
}

absl::StatusOr<jobs::Job> SqliteJobStore::Get(const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<jobs::Job>;
  return CatchSqlite(absl::StrCat("reading job ", id), [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    ASSIGN_OR_RETURN(std::optional<jobs::Job> job, SelectOne(c, "id = ?", id));
    if (!job.has_value()) return NoSuchJob(id);
    return *std::move(job);
  });
}

absl::StatusOr<std::string> SqliteJobStore::OwnerOf(const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::string>;
  return CatchSqlite(
      absl::StrCat("reading the owner of job ", id), [&]() -> Result {
        absl::MutexLock lock(&c.mutex());
        Query query(c, "SELECT owner FROM jobs WHERE id = ?", id);
        if (!query.Next()) return NoSuchJob(id);
        return query.Text();
      });
}

absl::StatusOr<std::map<std::string, jobs::State>> SqliteJobStore::StatesOf(
    absl::Span<const std::string> ids) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::map<std::string, jobs::State>>;
  return CatchSqlite("reading the states of jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return store::StatesOf(c, ids);
  });
}

absl::StatusOr<std::optional<jobs::Job>> SqliteJobStore::FindByIdempotencyKey(
    const std::string& owner, const std::string& key) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::optional<jobs::Job>>;
  return CatchSqlite("reading a job by its key", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return SelectOne(c, "owner = ? AND owner_key = ?", owner, key);
  });
}

absl::StatusOr<std::vector<jobs::Job>> SqliteJobStore::List(
    const jobs::ListFilter& filter) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<std::vector<jobs::Job>>;
  return CatchSqlite("listing jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return ListJobs(c, filter);
  });
}

absl::StatusOr<int64_t> SqliteJobStore::CountListed(
    const jobs::ListFilter& filter) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<int64_t>;
  return CatchSqlite("counting listed jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return CountJobs(c, filter);
  });
}

absl::StatusOr<std::vector<jobs::FoundJob>> SqliteJobStore::FindByIdPart(
    const std::string& part, int limit) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::FoundJob>>;
  return CatchSqlite("finding jobs by a part of their id", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const int from_end = -static_cast<int>(part.size());
    Query query(c, kFindByIdPart, part, part + "~", limit, kRecentJobs,
                from_end, part, static_cast<int>(jobs::State::kQueued),
                static_cast<int>(jobs::State::kRunning), from_end, part, limit);
    return ReadFoundJobs(query);
  });
}

absl::StatusOr<std::vector<std::string>> SqliteJobStore::Ids() {
  return IdsWhere(database_.reader(), "true");
}

absl::StatusOr<std::map<jobs::State, int64_t>> SqliteJobStore::CountByState() {
  {
    absl::MutexLock lock(&counts_mutex_);
    if (counts_) return *counts_;
  }
  // The writer's lock, so that no state changes between the query and the
  // return.
  Connection& c = database_.writer();
  using Result = absl::StatusOr<std::map<jobs::State, int64_t>>;
  return CatchSqlite("counting jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::map<jobs::State, int64_t> counts;
    Query query(c, "SELECT state, count(*) FROM jobs GROUP BY state");
    while (query.Next()) {
      const auto state = static_cast<jobs::State>(query.Int());
      counts[state] = query.Int();
    }
    absl::MutexLock counts_lock(&counts_mutex_);
    counts_ = counts;
    return counts;
  });
}

absl::StatusOr<std::vector<std::string>> SqliteJobStore::Unfinished() {
  return IdsWhere(database_.reader(), "state IN (1, 2)");
}

absl::Status SqliteJobStore::MarkUnreadable(const std::string& id,
                                            const std::string& message,
                                            absl::Time now) {
  Connection& c = database_.writer();
  return CatchSqlite(absl::StrCat("marking job ", id), [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, id);
    if (!stored) return NoSuchJob(id);
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    Query(c,
          "UPDATE jobs SET state = 4, message = ?, end_time_us = ?, "
          "cancel_requested = 0, exit_reason = NULL, progress = NULL, "
          "metrics = '{}', best_evaluation = NULL, output_kind = 1, kind = 1, "
          "confusion_matrix = '', warnings = '[]', held = 0, hold_reason = '' "
          "WHERE number = ?",
          message, absl::ToUnixMicros(now), stored->number)
        .Run();
    AppendEvent(c, stored->number,
                {id, LastEvent(c, stored->number) + 1, now,
                 jobs::StateChanged{jobs::State::kFailed, message}});
    IndexChangedTexts(c);
    transaction.Commit();
    Count(stored->state, jobs::State::kFailed);
    return absl::OkStatus();
  });
}

void SqliteJobStore::Count(std::optional<jobs::State> from,
                           std::optional<jobs::State> to) {
  absl::MutexLock lock(&counts_mutex_);
  if (!counts_ || from == to) return;
  if (from && --(*counts_)[*from] <= 0) counts_->erase(*from);
  if (to) ++(*counts_)[*to];
}

absl::StatusOr<std::vector<jobs::Event>> SqliteJobStore::Events(
    const std::string& job_id, int64_t after, int limit) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::Event>>;
  const std::string what = absl::StrCat("reading events of job ", job_id);
  return CatchSqlite(what, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, job_id);
    if (!stored) return NoSuchJob(job_id);
    std::vector<jobs::Event> events;
    Query query(c,
                "SELECT sequence, time_us, kind, body FROM events "
                "WHERE job = ? AND sequence > ? ORDER BY sequence LIMIT ?",
                stored->number, after, limit);
    while (query.Next()) {
      jobs::Event event{job_id, query.Int(), {}, {}};
      event.time = absl::FromUnixMicros(query.Int());
      const int kind = static_cast<int>(query.Int());
      ASSIGN_OR_RETURN(EventBody body, DecodeBody(kind, query.Text()));
      event.body = std::move(body);
      events.push_back(std::move(event));
    }
    return events;
  });
}

absl::StatusOr<int64_t> SqliteJobStore::LastSequence(
    const std::string& job_id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<int64_t>;
  const std::string what = absl::StrCat("reading events of job ", job_id);
  return CatchSqlite(what, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, job_id);
    if (!stored) return NoSuchJob(job_id);
    return LastEvent(c, stored->number);
  });
}

absl::StatusOr<std::vector<jobs::Checkpoint>> SqliteJobStore::Checkpoints(
    const std::string& job_id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::Checkpoint>>;
  const std::string what = absl::StrCat("reading checkpoints of job ", job_id);
  return CatchSqlite(what, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, job_id);
    if (!stored) return NoSuchJob(job_id);
    std::vector<jobs::Checkpoint> checkpoints;
    Query query(c,
                "SELECT step, path, size_bytes, seconds, create_time_us "
                "FROM checkpoints WHERE job = ? ORDER BY step",
                stored->number);
    while (query.Next()) {
      jobs::Checkpoint& checkpoint = checkpoints.emplace_back();
      checkpoint.step = query.Int();
      checkpoint.path = query.Text();
      checkpoint.bytes = query.Int();
      checkpoint.seconds = query.Real();
      checkpoint.create_time = absl::FromUnixMicros(query.Int());
    }
    return checkpoints;
  });
}

absl::StatusOr<std::vector<jobs::OwnerUse>> SqliteJobStore::OwnerUses() {
  return ReadUses(database_.reader());
}

absl::Status SqliteJobStore::ForgetUses(absl::Span<const std::string> owners) {
  return RemoveUses(database_.writer(), owners);
}

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
