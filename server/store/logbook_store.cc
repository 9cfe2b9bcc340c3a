// SPDX-License-Identifier: Apache-2.0
#include "server/store/logbook_store.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "core/base/limits.h"
#include "server/store/connection.h"
#include "server/store/record_search.h"
#include "server/store/record_texts.h"
#include "server/store/sqlite_status.h"
#include "server/store/time_limit.h"

namespace mpsd::store {
namespace {

using Durability = Connection::Durability;
using logbook::FieldValue;
using logbook::kRecordFields;

absl::Status NoSuchRecord(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("the logbook has no record ", id));
}

// 0 where there is none.
int64_t NumberOf(Connection& c, const std::string& id)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(c, "SELECT number FROM records WHERE id = ?", id);
  return query.Next() ? query.Int() : 0;
}

int64_t NextNumber(Connection& c) ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(c, "SELECT max(number) FROM records");
  query.Next();
  return query.OptionalInt().value_or(0) + 1;
}

// "REPLACE" would delete the row, and the tags and notes with it.
std::string PutSql(bool is_new) {
  std::vector<std::string> columns = {"owner", "end_time_us"};
  for (const auto& field : kRecordFields) columns.emplace_back(field.column);
  if (!is_new) {
    return absl::StrCat("UPDATE records SET ", absl::StrJoin(columns, " = ?, "),
                        " = ? WHERE number = ?");
  }
  const std::vector<std::string> marks(columns.size() + 1, "?");
  return absl::StrCat("INSERT INTO records (", absl::StrJoin(columns, ", "),
                      ", number, id) VALUES (", absl::StrJoin(marks, ", "),
                      ", ?)");
}

void BindValue(Query& query, const FieldValue& value) {
  std::visit(
      [&query](const auto& one) {
        if constexpr (std::is_same_v<decltype(one), const std::monostate&>) {
          query.Bind(std::optional<int64_t>());
        } else {
          query.Bind(one);
        }
      },
      value);
}

// Makes room at the front for a record that is written anew; what refers to the
// number follows.
void Renumber(Connection& c, int64_t from, int64_t to)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query(c, "UPDATE records SET number = ? WHERE number = ?", to, from).Run();
  MoveTexts(c, from, to);
}

// Writes the row; returns its number.
int64_t PutRow(Connection& c, const logbook::NewRecord& record)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  const int64_t earlier = NumberOf(c, record.id);
  int64_t number = NextNumber(c);
  if (earlier == number - 1 && earlier != 0) {
    number = earlier;  // it is the latest one
  } else if (earlier != 0) {
    Renumber(c, earlier, number);
  }
  Query put(c, PutSql(earlier == 0));
  put.Bind(record.owner);
  put.Bind(absl::ToUnixMicros(record.end_time));
  for (const FieldValue& value : record.values) BindValue(put, value);
  put.Bind(number);
  if (earlier == 0) put.Bind(record.id);
  put.Run();
  return number;
}

void PutPairs(Connection& c, int64_t number, const logbook::NewRecord& record)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query(c, "DELETE FROM record_metrics WHERE record = ?", number).Run();
  for (const auto& [name, value] : record.metrics) {
    Query(c,
          "INSERT INTO record_metrics (record, name, value) VALUES (?, ?, ?)",
          number, name, value)
        .Run();
  }
  Query(c, "DELETE FROM record_labels WHERE record = ?", number).Run();
  for (const auto& [name, value] : record.labels) {
    Query(c, "INSERT INTO record_labels (record, name, value) VALUES (?, ?, ?)",
          number, name, value)
        .Run();
  }
}

absl::Status InsertNote(Connection& c, int64_t record,
                        const logbook::Note& note)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query count(c, "SELECT count(*) FROM record_notes WHERE record = ?", record);
  count.Next();
  const int64_t number = count.Int() + 1;
  static_assert(limits::kRecordNotes < kPlacesOfRecord);
  if (number > limits::kRecordNotes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the record has ", limits::kRecordNotes,
                     " notes, as many as one may have: write an entry of its "
                     "own (`mpsctl log note - TEXT`)"));
  }
  Query(c,
        "INSERT INTO record_notes (record, number, time_us, author, text, "
        "rejected) VALUES (?, ?, ?, ?, ?, ?)",
        record, number, absl::ToUnixMicros(note.time), note.author, note.text,
        int64_t{note.rejected})
      .Run();
  PutTexts(c, record * kPlacesOfRecord + number,
           absl::StrCat(note.author, "\n", note.text,
                        note.rejected ? "\nrejected" : ""));
  return absl::OkStatus();
}

void ReadRest(Connection& c, logbook::StoredRecord& record)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query tags(c, "SELECT tag FROM record_tags WHERE record = ? ORDER BY tag",
             record.number);
  while (tags.Next()) record.tags.push_back(tags.Text());
  Query notes(c,
              "SELECT time_us, author, text, rejected FROM record_notes "
              "WHERE record = ? ORDER BY number",
              record.number);
  while (notes.Next()) {
    logbook::Note& note = record.notes.emplace_back();
    note.time = absl::FromUnixMicros(notes.Int());
    note.author = notes.Text();
    note.text = notes.Text();
    note.rejected = notes.Int() != 0;
  }
}

// False where there is none.
bool ReadRecord(Connection& c, int64_t number, logbook::StoredRecord& record)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(c,
              "SELECT r.id, r.owner, b.body FROM records AS r "
              "JOIN record_bodies AS b ON b.record = r.number "
              "WHERE r.number = ?",
              number);
  if (!query.Next()) return false;
  record.number = number;
  record.id = query.Text();
  record.owner = query.Text();
  record.body = query.Text();
  ReadRest(c, record);
  return true;
}

size_t BytesOf(const logbook::StoredRecord& record) {
  size_t bytes = record.body.size();
  for (const logbook::Note& note : record.notes) bytes += note.text.size();
  return bytes;
}

// The owner who has the most records, and how many all have.
std::pair<std::string, int64_t> LargestOwner(Connection& c)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query query(c,
              "SELECT owner, count(*) AS n, (SELECT count(*) FROM records) "
              "FROM records GROUP BY owner ORDER BY n DESC LIMIT 1");
  if (!query.Next()) return {};
  std::string owner = query.Text();
  query.Int();
  return {std::move(owner), query.Int()};
}

}  // namespace

absl::StatusOr<std::vector<logbook::UnwrittenRecord>> LogbookStore::Unwritten(
    int64_t number, int limit) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::vector<logbook::UnwrittenRecord>>;
  return CatchSqlite("reading the ends without a record", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<logbook::UnwrittenRecord> ends;
    Query query(c,
                "SELECT number, job_id FROM unwritten_records "
                "WHERE number > ? ORDER BY number LIMIT ?",
                number, limit);
    while (query.Next()) {
      logbook::UnwrittenRecord& end = ends.emplace_back();
      end.number = query.Int();
      end.job_id = query.Text();
    }
    return ends;
  });
}

absl::StatusOr<std::optional<logbook::UnwrittenRecord>>
LogbookStore::UnwrittenOf(const std::string& job_id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<std::optional<logbook::UnwrittenRecord>>;
  return CatchSqlite("reading the end without a record", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    Query query(c, "SELECT number FROM unwritten_records WHERE job_id = ?",
                job_id);
    if (!query.Next()) return std::nullopt;
    return logbook::UnwrittenRecord{query.Int(), job_id};
  });
}

absl::Status LogbookStore::Put(const logbook::NewRecord& record,
                               int64_t unwritten) {
  Connection& c = database_.writer();
  const std::string what = absl::StrCat("writing the record of ", record.id);
  return CatchSqlite(what, [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    const int64_t number = PutRow(c, record);
    Query(c, "REPLACE INTO record_bodies (record, body) VALUES (?, ?)", number,
          Blob{record.body})
        .Run();
    PutPairs(c, number, record);
    PutTexts(c, number * kPlacesOfRecord, record.texts);
    if (record.note) {
      absl::Status noted = InsertNote(c, number, *record.note);
      if (!noted.ok()) return noted;
    }
    Query(c, "DELETE FROM unwritten_records WHERE number = ?", unwritten).Run();
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::Status LogbookStore::Forget(int64_t unwritten) {
  Connection& c = database_.writer();
  return CatchSqlite("forgetting an end without a record", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kProcess);
    Query(c, "DELETE FROM unwritten_records WHERE number = ?", unwritten).Run();
    return absl::OkStatus();
  });
}

absl::Status LogbookStore::PutAttempts(
    const std::vector<logbook::AttemptRow>& rows) {
  Connection& c = database_.writer();
  return CatchSqlite("storing what was seen of attempts", [&] {
    absl::MutexLock lock(&c.mutex());
    c.SetDurability(Durability::kProcess);
    Transaction transaction(c);
    for (const logbook::AttemptRow& row : rows) {
      // A job that was deleted meanwhile leaves nothing behind.
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

absl::StatusOr<std::vector<std::string>> LogbookStore::Attempts(
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

absl::StatusOr<std::vector<logbook::StoredRecord>> LogbookStore::Search(
    const logbook::RecordSearch& search) {
  Connection& c = database_.searcher();
  using Result = absl::StatusOr<std::vector<logbook::StoredRecord>>;
  Result found = CatchSqlite("searching the logbook", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    std::vector<logbook::StoredRecord> records;
    size_t bytes = 0;
    const TimeLimit limit(c, search_);
    for (const int64_t number : FindRecords(c, search)) {
      if (bytes > search.bytes) break;
      logbook::StoredRecord record;
      if (!ReadRecord(c, number, record)) continue;
      bytes += BytesOf(record);
      records.push_back(std::move(record));
    }
    return records;
  });
  if (!absl::IsDeadlineExceeded(found.status())) return found;
  return absl::DeadlineExceededError(absl::StrCat(
      "query: the search took longer than ", absl::FormatDuration(search_),
      " and was given up: look for a rarer or a shorter text, or "
      "with fewer terms"));
}

absl::StatusOr<logbook::StoredRecord> LogbookStore::Get(const std::string& id) {
  Connection& c = database_.reader();
  using Result = absl::StatusOr<logbook::StoredRecord>;
  return CatchSqlite("reading a record", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    logbook::StoredRecord record;
    if (!ReadRecord(c, NumberOf(c, id), record)) return NoSuchRecord(id);
    return record;
  });
}

absl::StatusOr<std::vector<std::string>> LogbookStore::FindByIdPart(
    const std::string& part, const std::optional<std::string>& owner,
    int limit) {
  Connection& c = database_.searcher();
  using Result = absl::StatusOr<std::vector<std::string>>;
  return CatchSqlite("finding records by a part of their id", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    const std::string whose = owner.value_or("");
    // The index of ids serves the first condition, and the second one looks at
    // the index alone.
    Query query(c,
                "SELECT id FROM records WHERE id >= ?1 AND id < ?1 || '~' "
                "AND (?2 = 0 OR owner = ?3) "
                "UNION SELECT id FROM records WHERE substr(id, ?4) = ?1 "
                "AND (?2 = 0 OR owner = ?3) ORDER BY id LIMIT ?5",
                part, int64_t{owner.has_value()}, whose,
                -static_cast<int>(part.size()), limit);
    std::vector<std::string> ids;
    while (query.Next()) ids.push_back(query.Text());
    return ids;
  });
}

absl::Status LogbookStore::AddNote(const std::string& id,
                                   const logbook::Note& note) {
  Connection& c = database_.writer();
  return CatchSqlite("adding a note", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    const int64_t number = NumberOf(c, id);
    if (number == 0) return NoSuchRecord(id);
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    absl::Status added = InsertNote(c, number, note);
    if (added.ok()) transaction.Commit();
    return added;
  });
}

absl::Status LogbookStore::Tag(const std::string& id,
                               const std::vector<std::string>& add,
                               const std::vector<std::string>& remove) {
  Connection& c = database_.writer();
  return CatchSqlite("tagging a record", [&]() -> absl::Status {
    absl::MutexLock lock(&c.mutex());
    const int64_t number = NumberOf(c, id);
    if (number == 0) return NoSuchRecord(id);
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    for (const std::string& tag : remove) {
      Query(c, "DELETE FROM record_tags WHERE tag = ? AND record = ?", tag,
            number)
          .Run();
    }
    for (const std::string& tag : add) {
      Query(c, "INSERT OR IGNORE INTO record_tags (tag, record) VALUES (?, ?)",
            tag, number)
          .Run();
    }
    {
      Query count(c, "SELECT count(*) FROM record_tags WHERE record = ?",
                  number);
      count.Next();
      if (count.Int() > limits::kRecordTags) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the record would have more than ",
                         limits::kRecordTags, " tags: remove some"));
      }
    }
    transaction.Commit();
    return absl::OkStatus();
  });
}

absl::StatusOr<int64_t> LogbookStore::Prune(int64_t most) {
  Connection& c = database_.writer();
  using Result = absl::StatusOr<int64_t>;
  return CatchSqlite("removing old records", [&]() -> Result {
    absl::MutexLock lock(&c.mutex());
    {
      Query count(c, "SELECT count(*) FROM records");
      count.Next();
      if (count.Int() <= most) return 0;
    }
    c.SetDurability(Durability::kPowerCut);
    Transaction transaction(c);
    const auto [owner, all] = LargestOwner(c);
    std::vector<int64_t> old;
    {
      Query query(
          c,
          "SELECT number FROM records AS r WHERE owner = ? ORDER BY "
          "EXISTS (SELECT 1 FROM record_notes AS n WHERE n.record = r.number) "
          "OR EXISTS (SELECT 1 FROM record_tags AS t "
          "WHERE t.record = r.number), number LIMIT ?",
          owner, std::min(all - most, kPruned));
      while (query.Next()) old.push_back(query.Int());
    }
    for (const int64_t number : old) {
      RemoveTexts(c, number);
      Query(c, "DELETE FROM records WHERE number = ?", number).Run();
    }
    transaction.Commit();
    return static_cast<int64_t>(old.size());
  });
}

}  // namespace mpsd::store
