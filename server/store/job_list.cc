// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_list.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/text.h"
#include "server/store/job_row.h"

namespace mpsd::store {
namespace {

constexpr size_t kShownFault = 300;  // bytes

// Cuts long texts, and says which columns could not be read.
void Summarise(JobRow& row) {
  if (!row.fault.ok()) {
    const std::string fault = base::Printable(std::string(row.fault.message()));
    row.job.message = absl::StrCat(
        "not all of this job can be read: ",
        base::Shortened(fault, kShownFault),
        row.job.message.empty() ? "" : "; its message: ", row.job.message);
  }
  Shorten(row.job);
}

using Label = std::pair<const std::string, std::string>;

// Counts the jobs with the label, up to a bound, to choose the label to begin
// with.
int64_t CountLabelled(Connection& c, const Label& label)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  constexpr int kEnough = 1000;
  Query query(c,
              "SELECT count(*) FROM (SELECT 1 FROM labels "
              "WHERE key = ? AND value = ? LIMIT ?)",
              label.first, label.second, kEnough);
  query.Next();
  return query.Int();
}

// The labels of a filter, the rarest first.
std::vector<Label> RarestFirst(Connection& c, const jobs::ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  std::vector<std::pair<int64_t, const Label*>> counted;
  counted.reserve(filter.labels.size());
  for (const Label& label : filter.labels) {
    counted.emplace_back(filter.labels.size() > 1 ? CountLabelled(c, label) : 0,
                         &label);
  }
  std::stable_sort(
      counted.begin(), counted.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Label> labels;
  labels.reserve(counted.size());
  for (const auto& [count, label] : counted) labels.push_back(*label);
  return labels;
}

using Value = std::variant<int64_t, double, std::string>;

// The rows of a list: FROM and WHERE, and the values for their question marks.
struct Rows {
  std::string from;
  // The column that is the job's number and that `from` is walked along.
  std::string number;
  std::vector<std::string> where = {};
  std::vector<Value> values = {};

  template <typename... Values>
  void Add(std::string term, Values... bound) {
    where.push_back(std::move(term));
    (values.emplace_back(std::in_place_type<Values>, std::move(bound)), ...);
  }
  std::string Sql() const {
    return absl::StrCat(" FROM ", from, where.empty() ? "" : " WHERE ",
                        absl::StrJoin(where, " AND "));
  }
};

// FTS5's query for a text that may have any characters.
std::string Phrase(const std::string& text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// Whether the trigram index finds the text.
bool HasTrigram(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](unsigned char byte) {
           return (byte & 0xC0) != 0x80;
         }) >= 3;
}

// Whether the column has the text.
constexpr char kHas[] = " LIKE ? ESCAPE '\\'";

// Only searches id and owner of jobs of others than `owner`.
void AddTextOf(const std::string& owner, const std::string& text, Rows& rows) {
  rows.Add(absl::StrCat("(l.owner = ? AND l.owner <> '' OR l.id", kHas,
                        " OR l.owner", kHas, ")"),
           owner, LikePattern(text), LikePattern(text));
}

// The rows with the text: by the trigram index or, for a text without trigrams,
// one text after the other.
Rows RowsWith(const std::string& text) {
  if (HasTrigram(text)) {
    Rows rows{
        "job_texts CROSS JOIN job_list AS l ON l.number = job_texts.rowid",
        "job_texts.rowid"};
    rows.Add("job_texts MATCH ?", Phrase(text));
    return rows;
  }
  Rows rows{
      "job_text_rows AS t CROSS JOIN job_list AS l ON l.number = t.number",
      "t.number"};
  rows.Add(absl::StrCat("(t.texts", kHas, " OR t.id", kHas, " OR t.owner", kHas,
                        ")"),
           LikePattern(text), LikePattern(text), LikePattern(text));
  return rows;
}

// Begins with what finds the fewest jobs: a text, a label, all.
Rows BeginRows(Connection& c, const jobs::ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  const bool texts = !filter.text.empty();
  const std::vector<Label> labels = RarestFirst(c, filter);
  Rows rows{"job_list AS l", "l.number"};
  if (texts) {
    rows = RowsWith(filter.text);
    if (filter.text_of_owner) {
      AddTextOf(*filter.text_of_owner, filter.text, rows);
    }
  } else if (!labels.empty()) {
    rows = {"labels AS first CROSS JOIN job_list AS l ON l.number = first.job",
            "first.job"};
    rows.Add("first.key = ? AND first.value = ?", labels[0].first,
             labels[0].second);
  }
  for (size_t i = texts ? 0 : 1; i < labels.size(); ++i) {
    rows.Add(
        "EXISTS (SELECT 1 FROM labels AS more WHERE more.job = l.number "
        "AND more.key = ? AND more.value = ?)",
        labels[i].first, labels[i].second);
  }
  return rows;
}

// The rows that match, whatever the page.
Rows MatchingRows(Connection& c, const jobs::ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Rows rows = BeginRows(c, filter);
  if (!filter.states.empty()) {
    const std::vector<std::string> states(filter.states.size(), "?");
    rows.Add(absl::StrCat("l.state IN (", absl::StrJoin(states, ", "), ")"));
    for (jobs::State state : filter.states) {
      rows.values.emplace_back(static_cast<int64_t>(state));
    }
  }
  if (!filter.owner.empty()) rows.Add("l.owner = ?", filter.owner);
  if (!filter.model.empty()) rows.Add("l.model = ?", filter.model);
  const auto add_time = [&](const char* term,
                            const std::optional<absl::Time>& time) {
    if (time) rows.Add(term, absl::ToUnixMicros(*time));
  };
  add_time("l.create_time_us >= ?", filter.created_from);
  add_time("l.create_time_us < ?", filter.created_to);
  add_time("l.end_time_us >= ?", filter.ended_from);
  add_time("l.end_time_us < ?", filter.ended_to);
  for (const std::string& tag : filter.tags) {
    rows.Add("l.id IN (SELECT job_id FROM job_tags WHERE tag = ?)", tag);
  }
  if (filter.pinned) rows.Add("l.pinned = ?", int64_t{*filter.pinned});
  if (filter.held) rows.Add("l.held = ?", int64_t{*filter.held});
  return rows;
}

const char* ColumnOf(jobs::ListOrder order) {
  switch (order) {
    case jobs::ListOrder::kCreated:
      break;
    case jobs::ListOrder::kEndTime:
      return "l.end_time_us";
    case jobs::ListOrder::kName:
      return "l.name";
    case jobs::ListOrder::kOwner:
      return "l.owner";
    case jobs::ListOrder::kState:
      return "l.state";
    case jobs::ListOrder::kPriority:
      return "l.priority";
    case jobs::ListOrder::kEvalLoss:
      return "l.eval_loss";
    case jobs::ListOrder::kDeviceTime:
      return "l.device_us";
    case jobs::ListOrder::kStoredBytes:
      return "l.stored_bytes";
  }
  return nullptr;
}

// A number in place of the job's: no job after the place has it. A deleted
// job's place was right after the one with the next smaller id.
int64_t NumberOf(Connection& c, const std::string& id, bool ascending)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Query stored(c, "SELECT number FROM jobs WHERE id = ?", id);
  if (stored.Next()) return stored.Int();
  Query before(
      c, "SELECT number FROM jobs WHERE id < ? ORDER BY id DESC LIMIT 1", id);
  if (!before.Next()) return 0;
  return before.Int() + (ascending ? 0 : 1);
}

// Excludes the earlier pages.
void AddPlace(Connection& c, const jobs::ListFilter& filter, Rows& rows)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  const jobs::ListPlace& place = *filter.after;
  const int64_t number = NumberOf(c, place.id, filter.ascending);
  const char* column = ColumnOf(filter.order);
  const char* behind = filter.ascending ? " > ?" : " < ?";
  const std::string number_behind = absl::StrCat(rows.number, behind);
  if (column == nullptr) return rows.Add(number_behind, number);
  if (std::holds_alternative<std::monostate>(place.value)) {
    return rows.Add(absl::StrCat(column, " IS NULL AND ", number_behind),
                    number);
  }
  rows.where.push_back(absl::StrCat("(", column, behind, " OR ", column,
                                    " = ? AND ", number_behind, " OR ", column,
                                    " IS NULL)"));
  std::visit(
      [&rows](const auto& value) {
        if constexpr (!std::is_same_v<decltype(value), const std::monostate&>) {
          rows.values.insert(rows.values.end(), 2, Value(value));
        }
      },
      place.value);
  rows.values.emplace_back(number);
}

// Chooses the rows in the narrow table, and then reads those of jobs. `walks`:
// along the order's index, which is cheap unless a filter excludes most of it;
// else the rows are sorted, which a plus makes SQLite do.
std::string PageSql(const jobs::ListFilter& filter, const Rows& rows,
                    bool walks) {
  const char* way = filter.ascending ? "" : " DESC";
  const char* column = ColumnOf(filter.order);
  const std::string value = column == nullptr ? "" : column;
  const auto order = [&](const std::string& by, const std::string& number) {
    return absl::StrCat(by.empty() ? "" : by + way + " NULLS LAST, ", number,
                        way);
  };
  return absl::StrCat(
      "SELECT ", filter.summaries ? SummaryColumns() : WholeColumns(),
      " FROM (SELECT l.number AS listed", value.empty() ? "" : ", ", value,
      value.empty() ? "" : " AS value", rows.Sql(), " ORDER BY ",
      order(value.empty() || walks ? value : "+" + value, rows.number),
      " LIMIT ?) CROSS JOIN jobs ON jobs.number = listed ORDER BY ",
      order(value.empty() ? "" : "value", "listed"));
}

void BindAll(Query& query, const std::vector<Value>& values) {
  for (const Value& value : values) {
    std::visit([&query](const auto& one) { query.Bind(one); }, value);
  }
}

}  // namespace

std::string LikePattern(const std::string& text) {
  return absl::StrCat(
      "%",
      absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"%", "\\%"}, {"_", "\\_"}}),
      "%");
}

absl::StatusOr<std::vector<jobs::Job>> ListJobs(
    Connection& c, const jobs::ListFilter& filter) {
  std::vector<jobs::Job> listed;
  Rows rows = MatchingRows(c, filter);
  const bool walks = rows.where.empty();
  if (filter.after) AddPlace(c, filter, rows);
  Query query(c, PageSql(filter, rows, walks));
  BindAll(query, rows.values);
  query.Bind(filter.limit);
  while (query.Next()) {
    JobRow row = ReadWhatCanBe(query);
    if (!filter.summaries && !row.fault.ok()) return row.fault;
    ReadLabels(c, row);
    if (filter.summaries) Summarise(row);
    listed.push_back(std::move(row.job));
  }
  return listed;
}

int64_t CountJobs(Connection& c, const jobs::ListFilter& filter) {
  const Rows rows = MatchingRows(c, filter);
  Query query(c, absl::StrCat("SELECT count(*)", rows.Sql()));
  BindAll(query, rows.values);
  query.Next();
  return query.Int();
}

void IndexChangedTexts(Connection& c) {
  std::vector<int64_t> changed;
  {
    Query query(c, "SELECT number FROM job_texts_changed");
    while (query.Next()) changed.push_back(query.Int());
  }
  for (int64_t number : changed) {
    // To remove a text from the index, SQLite needs the text.
    Query(c,
          "INSERT INTO job_texts (job_texts, rowid, id, owner, texts) "
          "SELECT 'delete', * FROM job_text_rows WHERE number = ?",
          number)
        .Run();
    Query(c, "DELETE FROM job_text_rows WHERE number = ?", number).Run();
    Query(c,
          "INSERT INTO job_text_rows SELECT * FROM job_texts_source "
          "WHERE number = ?",
          number)
        .Run();
    Query(c,
          "INSERT INTO job_texts (rowid, id, owner, texts) "
          "SELECT * FROM job_text_rows WHERE number = ?",
          number)
        .Run();
    Query(c, "DELETE FROM job_texts_changed WHERE number = ?", number).Run();
  }
}

}  // namespace mpsd::store
