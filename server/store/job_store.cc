// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_store.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/store/database.h"
#include "server/store/job_rows.h"

namespace mpsd::jobs {

using store::CatchSqlite;
using store::Connection;
using store::Query;
using store::Transaction;

namespace {

// The beginning of a text in UTF-8, as SQLite's substr cuts it.
std::string FirstCharacters(std::string_view text, int characters) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && characters-- == 0) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

ListPlace PlaceOf(const Job& job, ListOrder order) {
  ListPlace place{job.id, {}};
  switch (order) {
    case ListOrder::kCreated:
      break;
    case ListOrder::kEndTime:
      if (job.end_time) place.value = absl::ToUnixMicros(*job.end_time);
      break;
    case ListOrder::kName:
      place.value = FirstCharacters(job.name, kOrderedCharacters);
      break;
    case ListOrder::kOwner:
      place.value = job.owner;
      break;
    case ListOrder::kState:
      place.value = static_cast<int64_t>(job.state);
      break;
    case ListOrder::kPriority:
      place.value = static_cast<int64_t>(job.priority);
      break;
    case ListOrder::kEvalLoss:
      // SQLite stores no NaN: then the job has no loss.
      if (job.eval_loss_after && !std::isnan(*job.eval_loss_after)) {
        place.value = *job.eval_loss_after;
      }
      break;
    case ListOrder::kDeviceTime:
      place.value = absl::ToInt64Microseconds(job.device_time);
      break;
    case ListOrder::kStoredBytes:
      place.value = job.stored_bytes;
      break;
  }
  return place;
}

namespace {

// One in kStride progress events is kept once it is older than this many
// sequences.
constexpr int64_t kProgressKept = 1000;
constexpr int64_t kStride = 10;

// The parts of the stored row that Update needs.
struct Stored {
  int64_t number = 0;
  State state = State::kQueued;
  bool cancel_requested = false;
};

std::optional<Stored> Find(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(
      c, "SELECT number, state, cancel_requested FROM jobs WHERE id = ?", id);
  if (!query.Next()) return std::nullopt;
  Stored stored;
  stored.number = query.Int();
  stored.state = static_cast<State>(query.Int());
  stored.cancel_requested = query.Int() != 0;
  return stored;
}

void AppendEvent(Connection& c, int64_t number, const Event& event)
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
void InsertRow(Connection& c, const Job& job, const Event& first)
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
  for (const std::string& used : job.uses) {
    Query(c,
          "INSERT INTO job_uses (job, used) "
          "SELECT ?, number FROM jobs WHERE id = ?",
          number, used)
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
bool IsProgressOnly(const Job& job, const Stored& stored,
                    absl::Span<const Event> events) {
  return !events.empty() && job.state == stored.state &&
         job.cancel_requested == stored.cancel_requested &&
         std::all_of(events.begin(), events.end(), [](const auto& event) {
           return KindOf(event.body) == kProgressKind;
         });
}

template <typename... Values>
absl::StatusOr<std::optional<Job>> SelectOne(Connection& c,
                                             const std::string& where,
                                             const Values&... values)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(
      c, absl::StrCat("SELECT ", WholeColumns(), " FROM jobs WHERE ", where),
      values...);
  if (!query.Next()) return std::optional<Job>();
  ASSIGN_OR_RETURN(JobRow row, ReadJobRow(query));
  // The row's query is still open, so the labels come from the same snapshot of
  // the database.
  ReadLabels(c, row);
  Query uses(c,
             "SELECT id FROM job_uses JOIN jobs ON number = used "
             "WHERE job = ?",
             row.number);
  while (uses.Next()) row.job.uses.insert(uses.Text());
  return std::optional<Job>(std::move(row.job));
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

// Removes the id of a job that succeeded and is about to be deleted from
// Job::after of the queued jobs, which no longer wait for it.
void ForgetSuccess(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  // A damaged list, which is not JSON, keeps no job from deletion.
  Query(c,
        "UPDATE jobs SET after_jobs = (SELECT json_group_array(value) "
        "FROM json_each(after_jobs) WHERE value <> ?1) WHERE number IN "
        "(SELECT number FROM jobs INDEXED BY jobs_waiting_for_others "
        "WHERE state IN (1, 2) AND after_jobs <> '[]' "
        "AND instr(after_jobs, ?1) > 0) AND state = 1 "
        "AND json_valid(after_jobs)",
        id)
      .Run();
}

void PutUse(Connection& c, const OwnerUse& use)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query(c,
        "INSERT OR REPLACE INTO owner_use (owner, seconds, time_us) "
        "VALUES (?, ?, ?)",
        use.owner, use.seconds, absl::ToUnixMicros(use.time))
      .Run();
}

// The first two conditions read the index of ids alone, the third the index of
// names, whose rows have the first 60 characters.
constexpr char kFindByText[] =
    "SELECT id, name, state, owner FROM jobs WHERE id IN ("
    "SELECT * FROM (SELECT id FROM jobs WHERE ?1 <> '' AND id >= ?1 "
    "AND id < ?1 || '~' ORDER BY id DESC LIMIT ?2) "
    "UNION SELECT * FROM (SELECT id FROM jobs WHERE ?1 <> '' "
    "AND substr(id, ?3) = ?1 ORDER BY id DESC LIMIT ?2) "
    "UNION SELECT * FROM (SELECT id FROM job_list AS l "
    "WHERE ?4 <> '' AND name = substr(?4, 1, 60) AND ?5 IN ('', owner) "
    "AND (SELECT name FROM jobs WHERE number = l.number) = ?4 "
    "ORDER BY number DESC LIMIT ?2)) "
    "ORDER BY id DESC LIMIT ?2";

}  // namespace

absl::Status JobStore::Insert(const Job& job, const Event& first) {
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

absl::Status JobStore::Update(const Job& job, absl::Span<const Event> events,
                              const OwnerUse* use) {
  Connection& c = database_.writer();
  return CatchSqlite(
      absl::StrCat("updating job ", job.id), [&]() -> absl::Status {
        absl::MutexLock lock(&c.mutex());
        // The connection that writes reads too, under one lock, so that the
        // state cannot change before the transaction begins.
        const std::optional<Stored> stored = Find(c, job.id);
        if (!stored) return NoSuchJob(job.id);
        if (job.state != stored->state &&
            !CanTransition(stored->state, job.state)) {
          return absl::FailedPreconditionError(absl::StrCat(
              "job ", job.id, " is ", std::string(Name(stored->state)),
              " and cannot become ", std::string(Name(job.state))));
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
        for (const Event& event : events) {
          AppendEvent(c, stored->number, event);
        }
        if (use != nullptr) PutUse(c, *use);
        IndexChangedTexts(c);
        transaction.Commit();
        Count(stored->state, job.state);
        return absl::OkStatus();
      });
}

absl::Status JobStore::AddCheckpoint(const std::string& job_id,
                                     const Checkpoint& checkpoint) {
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

absl::Status JobStore::Delete(const std::string& id) {
  Connection& c = database_.writer();
  return CatchSqlite(absl::StrCat("deleting job ", id), [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, id);
    if (!stored) return NoSuchJob(id);
    if (!IsFinal(stored->state)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "job ", id, " is ", std::string(Name(stored->state)), " again"));
    }
    c.SetDurability(Connection::Durability::kPowerCut);
    Transaction transaction(c);
    RETURN_IF_ERROR(jobs::CheckUnused(c, id));
    if (stored->state == State::kSucceeded) ForgetSuccess(c, id);
    // The foreign keys delete labels, events and checkpoints with the row.
    if (Query(c, "DELETE FROM jobs WHERE number = ? AND pinned = 0",
              stored->number)
            .Run() == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", id, " is pinned: unpin it first (`mpsctl set ",
                       id, " --unpin`)"));
    }
    IndexChangedTexts(c);
    transaction.Commit();
    Count(stored->state, std::nullopt);
    return absl::OkStatus();
  });
}

absl::StatusOr<Job> JobStore::Get(const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<Job>;
  return CatchSqlite(absl::StrCat("reading job ", id), [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    ASSIGN_OR_RETURN(std::optional<Job> job, SelectOne(c, "id = ?", id));
    if (!job.has_value()) return NoSuchJob(id);
    return *std::move(job);
  });
}

absl::StatusOr<std::string> JobStore::OwnerOf(const std::string& id) {
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

absl::StatusOr<std::map<std::string, State>> JobStore::StatesOf(
    absl::Span<const std::string> ids) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::map<std::string, State>>;
  return CatchSqlite("reading the states of jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::map<std::string, State> states;
    for (const std::string& id : ids) {
      Query query(c, "SELECT state FROM jobs WHERE id = ?", id);
      if (query.Next()) states[id] = static_cast<State>(query.Int());
    }
    return states;
  });
}

absl::StatusOr<std::optional<Job>> JobStore::FindByIdempotencyKey(
    const std::string& owner, const std::string& key) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::optional<Job>>;
  return CatchSqlite("reading a job by its key", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return SelectOne(c, "owner = ? AND owner_key = ?", owner, key);
  });
}

absl::StatusOr<std::string> JobStore::LastModelFolder(
    const std::string& owner, const std::string& model) {
  Connection& c = database_.reader();
  return CatchSqlite(
      "reading a job's model", [&]() -> absl::StatusOr<std::string> {
        absl::MutexLock lock(&c.mutex());
        Query query(
            c,
            "SELECT coalesce(json_extract(spec_json, '$.model'), '') FROM "
            "jobs WHERE json_valid(spec_json) AND number = (SELECT "
            "max(number) FROM jobs INDEXED BY jobs_by_model WHERE model = ? "
            "AND owner = ?)",
            model, owner);
        return query.Next() ? query.Text() : "";
      });
}

absl::StatusOr<std::vector<Job>> JobStore::List(const ListFilter& filter) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<std::vector<Job>>;
  return CatchSqlite("listing jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return ListJobs(c, filter);
  });
}

absl::StatusOr<int64_t> JobStore::CountListed(const ListFilter& filter) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<int64_t>;
  return CatchSqlite("counting listed jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return CountJobs(c, filter);
  });
}

absl::StatusOr<std::vector<FoundJob>> JobStore::FindByText(const JobText& text,
                                                           int limit) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<std::vector<FoundJob>>;
  return CatchSqlite("finding jobs by id or name", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, kFindByText, text.id_part, limit,
                -static_cast<int>(text.id_part.size()), text.name, text.owner);
    return ReadFoundJobs(query);
  });
}

absl::StatusOr<std::vector<std::string>> JobStore::Ids() {
  return IdsWhere(database_.reader(), "true");
}

absl::StatusOr<std::map<State, int64_t>> JobStore::CountByState() {
  {
    absl::MutexLock lock(&counts_mutex_);
    if (counts_) return *counts_;
  }
  // The writer's lock, so that no state changes between the query and the
  // return.
  Connection& c = database_.writer();
  using Result = absl::StatusOr<std::map<State, int64_t>>;
  return CatchSqlite("counting jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::map<State, int64_t> counts;
    Query query(c, "SELECT state, count(*) FROM jobs GROUP BY state");
    while (query.Next()) {
      const auto state = static_cast<State>(query.Int());
      counts[state] = query.Int();
    }
    absl::MutexLock counts_lock(&counts_mutex_);
    counts_ = counts;
    return counts;
  });
}

absl::StatusOr<std::vector<std::string>> JobStore::Unfinished() {
  return IdsWhere(database_.reader(), "state IN (1, 2)");
}

absl::Status JobStore::MarkUnreadable(const std::string& id,
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
                 StateChanged{State::kFailed, message}});
    IndexChangedTexts(c);
    transaction.Commit();
    Count(stored->state, State::kFailed);
    return absl::OkStatus();
  });
}

void JobStore::Count(std::optional<State> from, std::optional<State> to) {
  absl::MutexLock lock(&counts_mutex_);
  if (!counts_ || from == to) return;
  if (from && --(*counts_)[*from] <= 0) counts_->erase(*from);
  if (to) ++(*counts_)[*to];
}

absl::StatusOr<std::vector<Event>> JobStore::Events(const std::string& job_id,
                                                    int64_t after, int limit) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<Event>>;
  const std::string what = absl::StrCat("reading events of job ", job_id);
  return CatchSqlite(what, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, job_id);
    if (!stored) return NoSuchJob(job_id);
    std::vector<Event> events;
    Query query(c,
                "SELECT sequence, time_us, kind, body FROM events "
                "WHERE job = ? AND sequence > ? ORDER BY sequence LIMIT ?",
                stored->number, after, limit);
    while (query.Next()) {
      Event event{job_id, query.Int(), {}, {}};
      event.time = absl::FromUnixMicros(query.Int());
      const int kind = static_cast<int>(query.Int());
      ASSIGN_OR_RETURN(EventBody body, DecodeBody(kind, query.Text()));
      event.body = std::move(body);
      events.push_back(std::move(event));
    }
    return events;
  });
}

absl::StatusOr<int64_t> JobStore::LastSequence(const std::string& job_id) {
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

absl::StatusOr<std::vector<Checkpoint>> JobStore::Checkpoints(
    const std::string& job_id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<Checkpoint>>;
  const std::string what = absl::StrCat("reading checkpoints of job ", job_id);
  return CatchSqlite(what, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const std::optional<Stored> stored = Find(c, job_id);
    if (!stored) return NoSuchJob(job_id);
    std::vector<Checkpoint> checkpoints;
    Query query(c,
                "SELECT step, path, size_bytes, seconds, create_time_us "
                "FROM checkpoints WHERE job = ? ORDER BY step",
                stored->number);
    while (query.Next()) {
      Checkpoint& checkpoint = checkpoints.emplace_back();
      checkpoint.step = query.Int();
      checkpoint.path = query.Text();
      checkpoint.bytes = query.Int();
      checkpoint.seconds = query.Real();
      checkpoint.create_time = absl::FromUnixMicros(query.Int());
    }
    return checkpoints;
  });
}

absl::StatusOr<std::vector<OwnerUse>> JobStore::OwnerUses() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<OwnerUse>>;
  return CatchSqlite("reading what owners used", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<OwnerUse> uses;
    Query query(c, "SELECT owner, seconds, time_us FROM owner_use");
    while (query.Next()) {
      OwnerUse& use = uses.emplace_back();
      use.owner = query.Text();
      use.seconds = query.Real();
      use.time = absl::FromUnixMicros(query.Int());
    }
    return uses;
  });
}

absl::Status JobStore::ForgetUses(absl::Span<const std::string> owners) {
  Connection& c = database_.writer();
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

absl::Status JobStore::CheckUnused(const std::string& id) {
  Connection& c = database_.reader();
  return CatchSqlite(absl::StrCat("looking who uses job ", id), [&] {
    absl::MutexLock lock(&c.mutex());
    return jobs::CheckUnused(c, id);
  });
}

absl::Status JobStore::ForgetCheckpoints(const std::string& job_id) {
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

absl::StatusOr<std::optional<std::string>> JobStore::Drain() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::optional<std::string>>;
  return CatchSqlite("reading whether the daemon is drained", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, "SELECT why FROM drain");
    if (!query.Next()) return std::optional<std::string>();
    return std::optional<std::string>(query.Text());
  });
}

absl::Status JobStore::SetDrain(const std::optional<std::string>& why) {
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

}  // namespace mpsd::jobs
