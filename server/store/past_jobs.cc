// SPDX-License-Identifier: Apache-2.0
#include "server/store/past_jobs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/base/limits.h"
#include "nlohmann/json.hpp"
#include "server/store/connection.h"
#include "server/store/job_list.h"
#include "server/store/job_row.h"

namespace mpsd::store {

namespace {

using Durability = Connection::Durability;
using Value = std::variant<std::monostate, int64_t, double, std::string>;

// The maximum number of rows that one Put removes.
constexpr int64_t kPruned = 1000;

constexpr char kIsThere[] =
    "SELECT 1 FROM jobs WHERE id = ?1 "
    "UNION ALL SELECT 1 FROM past_jobs WHERE id = ?1";

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no job ", id, ", and no record of one"));
}

std::string LabelsJson(const jobs::Job& job) {
  nlohmann::json labels = nlohmann::json::object();
  for (const auto& [key, value] : job.labels) labels[key] = value;
  return labels.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Null if past jobs are all equal in the order.
const char* ColumnOf(jobs::ListOrder order) {
  switch (order) {
    case jobs::ListOrder::kEndTime:
      return "end_time_us";
    case jobs::ListOrder::kName:
      return "name";
    case jobs::ListOrder::kOwner:
      return "owner";
    case jobs::ListOrder::kState:
      return "state";
    case jobs::ListOrder::kEvalLoss:
      return "eval_loss";
    case jobs::ListOrder::kDeviceTime:
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

Where MatchingRows(const jobs::ListFilter& filter) {
  Where where;
  if (!filter.states.empty()) {
    where.Add(absl::StrCat(
        "state IN (",
        absl::StrJoin(filter.states, ", ",
                      [](std::string* out, jobs::State state) {
                        absl::StrAppend(out, static_cast<int>(state));
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
void AddPlace(const jobs::ListFilter& filter, Where& where) {
  const jobs::ListPlace& place = *filter.after;
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

Value ReadValue(jobs::ListOrder order, Query& query) {
  const auto value_of = [](auto value) {
    return value ? Value(*std::move(value)) : Value();
  };
  switch (order) {
    case jobs::ListOrder::kName:
    case jobs::ListOrder::kOwner:
      return value_of(query.OptionalText());
    case jobs::ListOrder::kEvalLoss:
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

absl::Status PastJobs::PutAttempts(const std::vector<jobs::AttemptRow>& rows,
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
    for (const jobs::AttemptRow& row : rows) {
      // Nothing is stored for a job that was deleted meanwhile.
      Query(c,
            "REPLACE INTO run_attempts (job_id, start_time_us, body) "
            "SELECT id, ?, ? FROM jobs WHERE id = ?",
            absl::ToUnixMicros(row.start), Blob{row.body}, row.job_id)
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

absl::Status PastJobs::Put(const jobs::Job& job, const std::string& texts,
                           const std::string& body) {
  Connection& c = database_.writer();
  const std::string what = absl::StrCat("keeping the record of job ", job.id);
  return CatchSqlite(what, [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    const jobs::ListPlace name = jobs::PlaceOf(job, jobs::ListOrder::kName);
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
          Blob{body})
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
    if (!query.Next()) return NoSuchJob(id);
    return query.Text();
  });
}

absl::StatusOr<std::vector<jobs::PastJob>> PastJobs::List(
    const jobs::ListFilter& filter) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<std::vector<jobs::PastJob>>;
  return CatchSqlite("listing deleted jobs", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const TimeLimit limit(c, options_.search);
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
    std::vector<jobs::PastJob> listed;
    while (query.Next()) {
      jobs::PastJob& job = listed.emplace_back();
      job.place.id = query.Text();
      job.name = query.Text();
      job.body = query.Text();
      job.place.value = ReadValue(filter.order, query);
    }
    return listed;
  });
}

absl::StatusOr<int64_t> PastJobs::Count(const jobs::ListFilter& filter) {
  Connection& c = database_.lister();
  return CatchSqlite("counting deleted jobs", [&]() -> absl::StatusOr<int64_t> {
    absl::MutexLock lock(&c.mutex());
    const TimeLimit limit(c, options_.search);
    const Where where = MatchingRows(filter);
    Query query(c, absl::StrCat("SELECT count(*)", where.sql));
    BindAll(query, where.values);
    query.Next();
    return query.Int();
  });
}

absl::StatusOr<std::vector<jobs::FoundJob>> PastJobs::FindByIdPart(
    const std::string& part, int limit) {
  Connection& c = database_.lister();
  using Result = absl::StatusOr<std::vector<jobs::FoundJob>>;
  const std::string what = "finding deleted jobs by a part of their id";
  return CatchSqlite(what, [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c,
                "SELECT id, name, state, owner FROM past_jobs AS p "
                "WHERE (id >= ?1 AND id < ?1 || '~' OR substr(id, ?2) = ?1) "
                "AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = p.id) "
                "ORDER BY id DESC LIMIT ?3",
                part, -static_cast<int>(part.size()), limit);
    return ReadFoundJobs(query);
  });
}

absl::StatusOr<std::vector<jobs::JobNote>> PastJobs::NotesOf(
    const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<jobs::JobNote>>;
  return CatchSqlite("reading the notes of a job", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<jobs::JobNote> notes;
    Query query(c,
                "SELECT time_us, author, text FROM job_notes WHERE job_id = ? "
                "ORDER BY number",
                id);
    while (query.Next()) {
      jobs::JobNote& note = notes.emplace_back();
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

absl::Status PastJobs::AddNote(const std::string& id,
                               const jobs::JobNote& note) {
  Connection& c = database_.writer();
  return CatchSqlite("adding a note", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    if (!Query(c, kIsThere, id).Next()) return NoSuchJob(id);
    {
      Query count(c, "SELECT count(*) FROM job_notes WHERE job_id = ?", id);
      count.Next();
      if (count.Int() >= limits::kJobNotes) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the job has ", limits::kJobNotes,
                         " notes, as many as one may have"));
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
    if (!Query(c, kIsThere, id).Next()) return NoSuchJob(id);
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
