// SPDX-License-Identifier: Apache-2.0
#include "server/store/ended_jobs.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/store/database.h"
#include "server/store/job_rows.h"

namespace mpsd::jobs {

using store::CatchSqlite;
using store::Connection;
using store::Query;
using store::Transaction;

absl::StatusOr<std::vector<EndedJob>> EndedJobs::After(int64_t number,
                                                       int limit) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<EndedJob>>;
  return CatchSqlite("reading the ends of jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<EndedJob> ends;
    Query query(c,
                "SELECT ended_jobs.number, jobs.id, ended_jobs.state, "
                "ended_jobs.time_us, ended_jobs.message FROM ended_jobs "
                "JOIN jobs ON jobs.number = ended_jobs.job "
                "WHERE ended_jobs.number > ? ORDER BY ended_jobs.number "
                "LIMIT ?",
                number, limit);
    while (query.Next()) {
      EndedJob& end = ends.emplace_back();
      end.number = query.Int();
      end.job_id = query.Text();
      end.state = static_cast<State>(query.Int());
      end.time = absl::FromUnixMicros(query.Int());
      end.message = query.Text();
    }
    return ends;
  });
}

absl::Status EndedJobs::Forget(int64_t number) {
  Connection& c = database_.writer();
  return CatchSqlite("forgetting the end of a job", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Connection::Durability::kProcess);
    Query(c, "DELETE FROM ended_jobs WHERE number = ?", number).Run();
    return absl::OkStatus();
  });
}

namespace {

// Jobs read or written per lock of the connection.
constexpr int kReadAtOnce = 5000;
constexpr size_t kWrittenAtOnce = 500;

// The jobs that have not ended and wait for the end of others: few rows of an
// index, whose condition SQLite must match.
constexpr char kWaiting[] =
    "SELECT id, after_jobs FROM jobs INDEXED BY jobs_waiting_for_others "
    "WHERE state IN (1, 2) AND after_jobs <> '[]'";

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

// A job that has not ended, and the ids of those that it waits for.
struct Waiting {
  std::string id;
  std::vector<std::string> after;
};

std::vector<Waiting> ReadWaiting(Connection& c)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  std::vector<Waiting> found;
  Query query(c, kWaiting);
  while (query.Next()) {
    Waiting& job = found.emplace_back();
    job.id = query.Text();
    job.after = DecodeColumn<std::vector<std::string>>(query.Text())
                    .value_or(std::vector<std::string>());
  }
  return found;
}

std::set<int64_t> NeededNumbers(Connection& c)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  std::set<int64_t> numbers;
  Query uses(c,
             "SELECT used FROM jobs INDEXED BY jobs_by_state "
             "JOIN job_uses ON job = number WHERE state IN (1, 2)");
  while (uses.Next()) numbers.insert(uses.Int());
  for (const Waiting& job : ReadWaiting(c)) {
    for (const std::string& id : job.after) {
      Query query(c, "SELECT number FROM jobs WHERE id = ?", id);
      if (query.Next()) numbers.insert(query.Int());
    }
  }
  return numbers;
}

// Reads at most kReadAtOnce jobs after those that `owner` has. Returns whether
// there may be more.
bool ReadEnded(Connection& c, const std::set<int64_t>& needed, KeptOwner& owner)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  int64_t end = INT64_MIN, number = INT64_MIN;
  if (!owner.jobs.empty()) {
    end = absl::ToUnixMicros(owner.jobs.back().ended);
    number = owner.jobs.back().number;
  }
  int read = 0;
  for (Query query(c, kEnded, owner.name, end, number, kReadAtOnce);
       query.Next(); ++read) {
    KeptJob& job = owner.jobs.emplace_back();
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
  if (!IsFinal(state)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is ", std::string(Name(state)),
                     ": cancel it, and delete it once it has ended"));
  }
  if (ended && end != absl::ToUnixMicros(*ended)) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " ran again since the rules were applied"));
  }
  if (pinned) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id, " is pinned: unpin it first (`mpsctl set ", id,
                     " --unpin`)"));
  }
  RETURN_IF_ERROR(CheckUnused(c, id));
  if (!ended) return absl::OkStatus();
  for (const Waiting& job : ReadWaiting(c)) {
    const auto& after = job.after;
    if (std::find(after.begin(), after.end(), id) == after.end()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id, ", which has not ended, waits for job ",
                     id, ": wait for it or cancel it first"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<KeptOwner>> KeptJobs::Ended() {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<KeptOwner>>;
  return CatchSqlite("reading the jobs that have ended", [&]() -> Result {
    std::set<int64_t> needed;
    {
      absl::MutexLock lock(&c.mutex());
      needed = NeededNumbers(c);
    }
    std::vector<KeptOwner> owners;
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

absl::StatusOr<std::vector<NamedJob>> KeptJobs::Names(
    absl::Span<const int64_t> numbers) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<NamedJob>>;
  return CatchSqlite("reading the names of jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<NamedJob> named;
    for (const int64_t number : numbers) {
      Query query(c, "SELECT id, name FROM jobs WHERE number = ?", number);
      if (!query.Next()) continue;
      NamedJob& job = named.emplace_back();
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

absl::Status KeptJobs::SetBytes(absl::Span<const FolderBytes> folders) {
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

namespace {

using Durability = Connection::Durability;
using Value = std::variant<std::monostate, int64_t, double, std::string>;

// The maximum number of rows that one Put removes.
constexpr int64_t kPruned = 1000;

constexpr char kIsThere[] =
    "SELECT 1 FROM jobs WHERE id = ?1 "
    "UNION ALL SELECT 1 FROM past_jobs WHERE id = ?1";

absl::Status NoRecordOf(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no job ", id, ", and no record of one"));
}

std::string LabelsJson(const Job& job) {
  nlohmann::json labels = nlohmann::json::object();
  for (const auto& [key, value] : job.labels) labels[key] = value;
  return labels.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Null if past jobs are all equal in the order.
const char* ColumnOf(ListOrder order) {
  switch (order) {
    case ListOrder::kEndTime:
      return "end_time_us";
    case ListOrder::kName:
      return "name";
    case ListOrder::kOwner:
      return "owner";
    case ListOrder::kState:
      return "state";
    case ListOrder::kEvalLoss:
      return "eval_loss";
    case ListOrder::kDeviceTime:
      return "device_us";
    default:
      return nullptr;
  }
}

// WHERE, and the values for its question marks.
struct Where {
  std::string sql =
      " FROM past_jobs AS p "
      "WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = p.id)";
  std::vector<Value> values = {};

  template <typename... Values>
  void Add(const std::string& term, const Values&... bound) {
    absl::StrAppend(&sql, " AND (", term, ")");
    (values.emplace_back(bound), ...);
  }
};

Where MatchingRows(const ListFilter& filter) {
  Where where;
  if (!filter.states.empty()) {
    where.Add(absl::StrCat("state IN (",
                           absl::StrJoin(filter.states, ", ",
                                         [](std::string* out, State state) {
                                           absl::StrAppend(
                                               out, static_cast<int>(state));
                                         }),
                           ")"));
  }
  if (!filter.owner.empty()) where.Add("owner = ?", filter.owner);
  if (!filter.model.empty()) where.Add("model = ?", filter.model);
  for (const auto& [key, value] : filter.labels) {
    where.Add(
        "EXISTS (SELECT 1 FROM json_each(p.labels) WHERE key = ? AND value = "
        "?)",
        key, value);
  }
  for (const std::string& tag : filter.tags) {
    where.Add("id IN (SELECT job_id FROM job_tags WHERE tag = ?)", tag);
  }
  const auto add_time = [&where](const char* term,
                                 const std::optional<absl::Time>& time) {
    if (time) where.Add(term, absl::ToUnixMicros(*time));
  };
  add_time("create_time_us >= ?", filter.created_from);
  add_time("create_time_us < ?", filter.created_to);
  add_time("end_time_us >= ?", filter.ended_from);
  add_time("end_time_us < ?", filter.ended_to);
  // No past job is pinned or held.
  if (filter.pinned.value_or(false) || filter.held.value_or(false)) {
    where.Add("false");
  }
  if (!filter.text.empty()) {
    const std::string pattern = LikePattern(filter.text);
    where.Add(
        "texts LIKE ? ESCAPE '\\' OR id IN (SELECT job_id FROM job_notes "
        "WHERE text LIKE ? ESCAPE '\\')",
        pattern, pattern);
  }
  return where;
}

// Excludes the earlier pages.
void AddPlace(const ListFilter& filter, Where& where) {
  const ListPlace& place = *filter.after;
  const char* column = ColumnOf(filter.order);
  const char* sign = filter.ascending ? " > ?" : " < ?";
  if (column == nullptr) return where.Add(absl::StrCat("id", sign), place.id);
  if (std::holds_alternative<std::monostate>(place.value)) {
    return where.Add(absl::StrCat(column, " IS NULL AND id", sign), place.id);
  }
  where.Add(absl::StrCat(column, sign, " OR ", column, " = ? AND id", sign,
                         " OR ", column, " IS NULL"),
            place.value, place.value, place.id);
}

void BindAll(Query& query, const std::vector<Value>& values) {
  for (const Value& value : values) {
    std::visit(
        [&query](const auto& one) {
          if constexpr (!std::is_same_v<decltype(one), const std::monostate&>) {
            query.Bind(one);
          }
        },
        value);
  }
}

Value ReadValue(ListOrder order, Query& query) {
  const auto value_of = [](auto value) {
    return value ? Value(*std::move(value)) : Value();
  };
  switch (order) {
    case ListOrder::kName:
    case ListOrder::kOwner:
      return value_of(query.OptionalText());
    case ListOrder::kEvalLoss:
      return value_of(query.OptionalReal());
    default:
      return value_of(query.OptionalInt());
  }
}

void Prune(Connection& c, int64_t most)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  int64_t beyond = 0;
  {
    Query count(c, "SELECT count(*) FROM past_jobs");
    count.Next();
    beyond = count.Int() - most;
  }
  if (beyond <= 0) return;
  std::string owner;
  {
    Query largest(c,
                  "SELECT owner FROM past_jobs GROUP BY owner "
                  "ORDER BY count(*) DESC LIMIT 1");
    largest.Next();
    owner = largest.Text();
  }
  Query(c,
        "DELETE FROM past_jobs WHERE id IN (SELECT id FROM past_jobs AS p "
        "WHERE owner = ? ORDER BY "
        "EXISTS (SELECT 1 FROM job_notes WHERE job_id = p.id) "
        "OR EXISTS (SELECT 1 FROM job_tags WHERE job_id = p.id), "
        "id LIMIT ?)",
        owner, std::min(beyond, kPruned))
      .Run();
}

// Locks the mutex unless it is held for longer than `patience`. Abseil's Mutex
// has no such call.
bool LockWithin(absl::Mutex& mutex,
                absl::Duration patience) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  constexpr absl::Duration kPause = absl::Milliseconds(5);
  for (; !mutex.TryLock(); patience -= kPause) {
    if (patience <= absl::ZeroDuration()) return false;
    absl::SleepFor(kPause);
  }
  return true;
}

}  // namespace

absl::Status PastJobs::PutAttempts(const std::vector<AttemptRow>& rows,
                                   absl::Duration patience) {
  Connection& c = database_.writer();
  if (!LockWithin(c.mutex(), patience)) {
    return absl::UnavailableError("the database is busy with another write");
  }
  const absl::Cleanup unlock = [&c]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    c.mutex().Unlock();
  };
  return CatchSqlite("storing what was seen of attempts", [&] {
    c.mutex().AssertHeld();
    c.SetDurability(Durability::kProcess);
    Transaction transaction(c);
    for (const AttemptRow& row : rows) {
      // Nothing is stored for a job that was deleted meanwhile.
      Query(c,
            "REPLACE INTO run_attempts (job_id, start_time_us, body) "
            "SELECT id, ?, ? FROM jobs WHERE id = ?",
            absl::ToUnixMicros(row.start), store::Blob{row.body}, row.job_id)
          .Run();
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::string>> PastJobs::Attempts(
    const std::string& job_id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<std::string>>;
  return CatchSqlite("reading what was seen of attempts", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<std::string> bodies;
    Query query(c,
                "SELECT body FROM run_attempts WHERE job_id = ? "
                "ORDER BY start_time_us",
                job_id);
    while (query.Next()) bodies.push_back(query.Text());
    return bodies;
  });
}

absl::Status PastJobs::Put(const Job& job, const std::string& texts,
                           const std::string& body) {
  Connection& c = database_.writer();
  const std::string what = absl::StrCat("keeping the record of job ", job.id);
  return CatchSqlite(what, [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    const ListPlace name = PlaceOf(job, ListOrder::kName);
    Query(c,
          "REPLACE INTO past_jobs (id, owner, state, create_time_us, "
          "end_time_us, eval_loss, device_us, name, model, labels, texts, "
          "body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          job.id, job.owner, static_cast<int>(job.state),
          absl::ToUnixMicros(job.create_time),
          job.end_time ? std::optional(absl::ToUnixMicros(*job.end_time))
                       : std::nullopt,
          job.eval_loss_after, absl::ToInt64Microseconds(job.device_time),
          std::get<std::string>(name.value), job.model, LabelsJson(job), texts,
          store::Blob{body})
        .Run();
    Prune(c, options_.most);
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> PastJobs::BodyOf(const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::string>;
  return CatchSqlite("reading the record of a job", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, "SELECT body FROM past_jobs WHERE id = ?", id);
    if (!query.Next()) return NoRecordOf(id);
    return query.Text();
  });
}

absl::StatusOr<std::vector<PastJob>> PastJobs::List(const ListFilter& filter) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<std::vector<PastJob>>;
  return CatchSqlite("listing deleted jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const store::TimeLimit limit(c, options_.search);
    Where where = MatchingRows(filter);
    if (filter.after) AddPlace(filter, where);
    const char* column = ColumnOf(filter.order);
    const char* way = filter.ascending ? "" : " DESC";
    const std::string by =
        column == nullptr ? "" : absl::StrCat(column, way, " NULLS LAST, ");
    // Chooses the rows first, so that a sort moves no bodies.
    Query query(c,
                absl::StrCat("SELECT l.id, l.name, l.body, value FROM (SELECT "
                             "p.rowid AS listed, ",
                             column == nullptr ? "NULL" : column, " AS value",
                             where.sql, " ORDER BY ", by, "id", way,
                             " LIMIT ?) CROSS JOIN past_jobs AS l "
                             "ON l.rowid = listed ORDER BY value",
                             way, " NULLS LAST, l.id", way));
    BindAll(query, where.values);
    query.Bind(filter.limit);
    std::vector<PastJob> listed;
    while (query.Next()) {
      PastJob& job = listed.emplace_back();
      job.place.id = query.Text();
      job.name = query.Text();
      job.body = query.Text();
      job.place.value = ReadValue(filter.order, query);
    }
    return listed;
  });
}

absl::StatusOr<int64_t> PastJobs::Count(const ListFilter& filter) {
  Connection& c = database_.lister();
  return CatchSqlite("counting deleted jobs", [&]() -> absl::StatusOr<int64_t> {
    absl::MutexLock lock(&c.mutex());
    const store::TimeLimit limit(c, options_.search);
    const Where where = MatchingRows(filter);
    Query query(c, absl::StrCat("SELECT count(*)", where.sql));
    BindAll(query, where.values);
    query.Next();
    return query.Int();
  });
}

absl::StatusOr<std::vector<FoundJob>> PastJobs::FindByText(const JobText& text,
                                                           int limit) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<std::vector<FoundJob>>;
  const std::string what = "finding deleted jobs by id or name";
  return CatchSqlite(what, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c,
                "SELECT id, name, state, owner FROM past_jobs AS p "
                "WHERE (?1 <> '' AND (id >= ?1 AND id < ?1 || '~' "
                "OR substr(id, ?3) = ?1) OR ?4 <> '' AND ?5 IN ('', owner) "
                "AND name = substr(?4, 1, 60) COLLATE BINARY "
                // The texts have the whole name as a line.
                "AND (length(?4) < 60 OR instr(texts || char(10), "
                "char(10) || ?4 || char(10)))) "
                "AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = p.id) "
                "ORDER BY id DESC LIMIT ?2",
                text.id_part, limit, -static_cast<int>(text.id_part.size()),
                text.name, text.owner);
    return ReadFoundJobs(query);
  });
}

absl::StatusOr<std::vector<JobNote>> PastJobs::NotesOf(const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<JobNote>>;
  return CatchSqlite("reading the notes of a job", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<JobNote> notes;
    Query query(c,
                "SELECT time_us, author, text FROM job_notes WHERE job_id = ? "
                "ORDER BY number",
                id);
    while (query.Next()) {
      JobNote& note = notes.emplace_back();
      note.time = absl::FromUnixMicros(query.Int());
      note.author = query.Text();
      note.text = query.Text();
    }
    return notes;
  });
}

absl::StatusOr<std::vector<std::string>> PastJobs::TagsOf(
    const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<std::string>>;
  return CatchSqlite("reading the tags of a job", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    return ReadTags(c, id);
  });
}

absl::Status PastJobs::AddNote(const std::string& id, const JobNote& note) {
  Connection& c = database_.writer();
  return CatchSqlite("adding a note", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    if (!Query(c, kIsThere, id).Next()) return NoRecordOf(id);
    {
      Query count(c,
                  "SELECT count(*) FROM job_notes WHERE job_id = ? AND "
                  "author = ?",
                  id, note.author);
      count.Next();
      if (count.Int() >= limits::kJobNotes) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the job has ", limits::kJobNotes,
                         " notes of yours, as many as one user may add"));
      }
    }
    Query(c,
          "INSERT INTO job_notes (job_id, number, time_us, author, text) "
          "SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4 "
          "FROM job_notes WHERE job_id = ?1",
          id, absl::ToUnixMicros(note.time), note.author, note.text)
        .Run();
    IndexChangedTexts(c);
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status PastJobs::Tag(const std::string& id,
                           const std::vector<std::string>& add,
                           const std::vector<std::string>& remove) {
  Connection& c = database_.writer();
  return CatchSqlite("tagging a job", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    if (!Query(c, kIsThere, id).Next()) return NoRecordOf(id);
    for (const std::string& tag : remove) {
      Query(c, "DELETE FROM job_tags WHERE job_id = ? AND tag = ?", id, tag)
          .Run();
    }
    for (const std::string& tag : add) {
      Query(c, "INSERT OR IGNORE INTO job_tags (job_id, tag) VALUES (?, ?)", id,
            tag)
          .Run();
    }
    if (ReadTags(c, id).size() > limits::kJobTags) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the job would have more than ", limits::kJobTags,
                       " tags: remove some"));
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

}  // namespace mpsd::jobs
