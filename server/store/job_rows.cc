// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_rows.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/report/report_json.h"

namespace mpsd::jobs {

using store::Connection;
using store::Query;

namespace {

using report::Json;
using report::JsonReader;
using report::JsonWriter;

// Writes the memory counters next to the step's other members. The field lists
// call a writer and a reader by their own types, so that these operators may
// hide JsonWriter's and JsonReader's.
// NOLINTBEGIN(bugprone-derived-method-shadowing-base-method)
class BodyWriter : public JsonWriter {
 public:
  using JsonWriter::JsonWriter;
  using JsonWriter::operator();

  void operator()(const char*, const report::MemoryCounters& value) {
    Fields(*this, value, &value);
  }
  void operator()(const char* name, State value) {
    (*this)(name, static_cast<int64_t>(value));
  }
  void operator()(const char* name, absl::Time value) {
    (*this)(name, absl::ToUnixMicros(value));
  }
};

class BodyReader : public JsonReader {
 public:
  explicit BodyReader(const Json& in)
      : JsonReader(in, "event", Missing::kDefault) {}
  using JsonReader::operator();

  void operator()(const char*, report::MemoryCounters& value) {
    Fields(*this, value, &value);
  }
  void operator()(const char* name, State& value) {
    int64_t number = 0;
    (*this)(name, number);
    const auto state = report::Numbered(kStates, number);
    if (!state) return IllTyped(name, "a state's number");
    value = *state;
  }
  void operator()(const char* name, absl::Time& value) {
    int64_t micros = 0;
    (*this)(name, micros);
    value = absl::FromUnixMicros(micros);
  }
};
// NOLINTEND(bugprone-derived-method-shadowing-base-method)

absl::Status Unreadable(const std::string& text) {
  return absl::DataLossError(
      absl::StrCat("the database holds an unreadable event: ", text));
}

template <typename Body>
std::string Encode(const Body& body) {
  Json object = Json::object();
  BodyWriter writer(object);
  EventFields(writer, body, &body);
  return report::Dump(object);
}

template <typename Body>
absl::StatusOr<Body> Decode(const std::string& text) {
  Body body{};
  const Json object = base::ParseTree<Json>(text);
  if (object.is_object()) {
    BodyReader reader(object);
    EventFields(reader, body, &body);
    if (reader.status().ok()) return body;
  }
  return Unreadable(text);
}

// Marks a member with its own column.
constexpr char kColumn[] = "column";

// Whether a value has the field list of an event.
template <typename Value>
constexpr bool kIsBody =
    std::is_same_v<Value, Progress> || std::is_same_v<Value, Evaluated>;

template <typename Body>
absl::StatusOr<EventBody> DecodeAs(const std::string& text) {
  ASSIGN_OR_RETURN(Body body, Decode<Body>(text));
  return EventBody(std::move(body));
}

}  // namespace

int KindOf(const EventBody& body) { return static_cast<int>(body.index()) + 1; }

std::string EncodeBody(const EventBody& body) {
  return std::visit([](const auto& b) { return Encode(b); }, body);
}

absl::StatusOr<EventBody> DecodeBody(int kind, const std::string& text) {
  switch (kind) {
    case 1:
      return DecodeAs<StateChanged>(text);
    case kProgressKind:
      return DecodeAs<Progress>(text);
    case 3:
      return DecodeAs<Evaluated>(text);
    case 4:
      return DecodeAs<Checkpoint>(text);
    case 5:
      return DecodeAs<Note>(text);
    case 6:
      return DecodeAs<report::Sampled>(text);
    default:
      return absl::DataLossError(
          absl::StrCat("the database holds an event of unknown kind ", kind));
  }
}

template <typename Value>
std::string EncodeColumn(const Value& value) {
  if constexpr (kIsBody<Value>) {
    return Encode(value);
  } else {
    Json object = {
        {kColumn, Json::object()}};  // the writer omits empty metrics
    JsonWriter writer(object);
    writer(kColumn, value);
    return report::Dump(object[kColumn]);
  }
}

template <typename Value>
absl::StatusOr<Value> DecodeColumn(const std::string& text) {
  if constexpr (kIsBody<Value>) {
    return Decode<Value>(text);
  } else {
    Json object = Json::object();
    object[kColumn] = base::ParseTree<Json>(text);
    Value value;
    JsonReader reader(object, "row", JsonReader::Missing::kError);
    reader(kColumn, value);
    if (!reader.status().ok()) return Unreadable(text);
    return value;
  }
}

template std::string EncodeColumn(const Progress&);
template std::string EncodeColumn(const Evaluated&);
template std::string EncodeColumn(const Metrics&);
template std::string EncodeColumn(const std::vector<std::string>&);
template absl::StatusOr<Progress> DecodeColumn(const std::string&);
template absl::StatusOr<Evaluated> DecodeColumn(const std::string&);
template absl::StatusOr<Metrics> DecodeColumn(const std::string&);
template absl::StatusOr<std::vector<std::string>> DecodeColumn(
    const std::string&);

namespace {

// What a summary shows of a column.
struct Shown {
  size_t bytes = 0;                 // the most of a text; 0: all
  const char* otherwise = nullptr;  // SQL in place of what is omitted
};
constexpr Shown Beginning(size_t bytes) { return {bytes, nullptr}; }
constexpr Shown Nothing(const char* otherwise) { return {0, otherwise}; }
// Truncated JSON would be invalid: all of it or nothing.
constexpr Shown IfShort(const char* otherwise) { return {64 << 10, otherwise}; }

// The columns of table jobs in the order of every statement, each with its
// member of the job. These lists are the only ones: the statements, their
// parameters, what is read and what a summary shows are derived from them.
template <typename V>
void FixedColumns(V& v, auto& job) {
  v("id", job.id);
  v("create_time_us", job.create_time);
  v("owner_key", job.idempotency_key);
  v("request_hash", job.request_hash, Nothing("''"));
  v("kind", job.kind);
  v("model", job.model, Beginning(limits::kPathBytes));
  v("study_json", job.study_json, Nothing("''"));
  v("input_stamps", job.input_stamps, Nothing("''"));
}
template <typename V>
void ChangingColumns(V& v, auto& job) {
  v("name", job.name, Beginning(limits::kNameBytes));
  v("state", job.state);
  v("cancel_requested", job.cancel_requested);
  v("owner", job.owner, Beginning(limits::kOwnerBytes));
  v("priority", job.priority);
  v("start_time_us", job.start_time);
  v("end_time_us", job.end_time);
  v("not_before_us", job.not_before);
  v("attempt", job.attempt);
  v("failures", job.failures);
  v("message", job.message, Beginning(limits::kMessageBytes));
  v("exit_reason", job.exit_reason);
  v("progress", job.progress, IfShort("NULL"));
  v("eval_loss_before", job.eval_loss_before);
  v("eval_loss_after", job.eval_loss_after);
  v("train_loss", job.train_loss);
  v("output_path", job.output_path, Beginning(limits::kPathBytes));
  v("spec_json", job.spec_json, Nothing("''"));
  v("output_kind", job.output_kind);
  v("metrics", job.metrics, IfShort("'{}'"));
  v("best_evaluation", job.best_evaluation, IfShort("NULL"));
  v("confusion_matrix", job.confusion_matrix, Nothing("''"));
  v("warnings", job.warnings, Nothing("'[]'"));
  v("interruptions", job.interruptions);
  v("behind", job.runs_last);
  v("boot_id", job.boot_id);
  v("durable_step", job.durable_step);
  v("advanced", job.advanced);
  v("memory_bytes", job.memory_bytes);
  v("checkpoint_bytes", job.checkpoint_bytes);
  v("device_us", job.device_time);
  v("held", job.held);
  v("hold_reason", job.hold_reason, Beginning(limits::kReasonBytes));
  v("place", job.place);
  v("among_all", job.among_all);
  v("ticket", job.ticket, Beginning(limits::kIdBytes));
  v("fresh", job.fresh);
  v("after_jobs", job.after);
}
// Columns with their own statements, absent in a new row.
template <typename V>
void SeparateColumns(V& v, auto& job) {
  v("pinned", job.pinned);
  v("stored_bytes", job.stored_bytes);
}

// SQL for a summary's part of a column. A text may come with one byte more than
// its bound, so that Shorten sees that the text was longer.
std::string Summarised(const char* column, const Shown& shown) {
  if (shown.otherwise == nullptr) {
    return shown.bytes == 0
               ? column
               : absl::StrCat("substr(", column, ", 1, ", shown.bytes + 1, ")");
  }
  if (shown.bytes == 0) return shown.otherwise;
  return absl::StrCat("CASE WHEN length(", column, ") > ", shown.bytes,
                      " THEN ", shown.otherwise, " ELSE ", column, " END");
}

struct Names {
  bool summarised = false;
  std::vector<std::string> columns = {};

  void operator()(const char* name, const auto&, const Shown& shown = {}) {
    columns.push_back(summarised ? Summarised(name, shown) : name);
  }
};

std::string SelectedColumns(bool summarised) {
  const Job job;
  Names names{summarised, {"number"}};
  FixedColumns(names, job);
  ChangingColumns(names, job);
  SeparateColumns(names, job);
  return absl::StrJoin(names.columns, ", ");
}

std::string Placeholders(size_t count) {
  return absl::StrJoin(std::vector<std::string>(count, "?"), ", ");
}

class Binder {
 public:
  explicit Binder(Query& query) : query_(query) {}

  template <typename T>
  void operator()(std::string_view name, const T& value, const Shown& = {}) {
    if constexpr (std::is_same_v<T, std::string>) {
      // The index of keys takes each text once, but any number of NULLs.
      if (name == "owner_key" && value.empty()) return BindNull();
    }
    Bind(value);
  }

 private:
  void BindNull() { query_.Bind(std::optional<int>()); }

  template <typename T>
  void Bind(const T& value) {
    if constexpr (std::is_same_v<T, absl::Time>) {
      query_.Bind(absl::ToUnixMicros(value));
    } else if constexpr (std::is_same_v<T, absl::Duration>) {
      query_.Bind(absl::ToInt64Microseconds(value));
    } else if constexpr (std::is_same_v<T, ExitReason>) {
      query_.Bind(std::string(Name(value)));
    } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
      query_.Bind(static_cast<int>(value));
    } else if constexpr (std::is_arithmetic_v<T> ||
                         std::is_same_v<T, std::string>) {
      query_.Bind(value);
    } else {
      query_.Bind(EncodeColumn(value));
    }
  }
  template <typename T>
  void Bind(const std::optional<T>& value) {
    value.has_value() ? Bind(*value) : BindNull();
  }

  Query& query_;
};

class Reader {
 public:
  Reader(Query& query, JobRow& row) : query_(query), row_(row) {}

  void operator()(const char*, auto& value, const Shown& = {}) { Read(value); }

 private:
  // Keeps the row's first fault.
  void Note(const absl::Status& status) {
    if (row_.fault.ok()) row_.fault = status;
  }
  void NoteUnknown(const std::string& what) {
    Note(absl::DataLossError(absl::StrCat("the database's row of job ",
                                          row_.job.id, " has ", what)));
  }

  void Read(std::string& value) { value = query_.OptionalText().value_or(""); }
  void Read(int64_t& value) { value = query_.Int(); }
  void Read(int32_t& value) { value = static_cast<int32_t>(query_.Int()); }
  void Read(bool& value) { value = query_.Int() != 0; }
  void Read(std::optional<double>& value) { value = query_.OptionalReal(); }
  void Read(absl::Duration& value) { value = absl::Microseconds(query_.Int()); }
  void Read(absl::Time& value) { value = absl::FromUnixMicros(query_.Int()); }
  void Read(std::optional<absl::Time>& value) {
    if (const auto micros = query_.OptionalInt()) {
      value = absl::FromUnixMicros(*micros);
    }
  }
  void Read(State& value) {
    value = State::kFailed;
    ReadNumber(kStates, "state ", value);
  }
  void Read(JobKind& value) { ReadNumber(kJobKinds, "kind ", value); }
  void Read(OutputKind& value) {
    ReadNumber(report::kOutputKinds, "output kind ", value);
  }
  template <typename E, size_t N>
  void ReadNumber(const report::EnumName<E> (&known)[N], const char* what,
                  E& value) {
    const int64_t number = query_.Int();
    const std::optional<E> found = report::Numbered(known, number);
    if (!found) return NoteUnknown(absl::StrCat(what, number));
    value = *found;
  }
  void Read(std::optional<ExitReason>& value) {
    const std::optional<std::string> name = query_.OptionalText();
    if (!name) return;
    for (const auto& known : kExitReasons) {
      if (*name == known.name) value = known.value;
    }
    if (!value) NoteUnknown("exit reason " + base::Quotable(*name));
  }
  void Read(Metrics& value) { ReadJson<Metrics>(value); }
  void Read(std::vector<std::string>& value) {
    ReadJson<std::vector<std::string>>(value);
  }
  // Every other column is JSON or NULL.
  template <typename T>
  void Read(std::optional<T>& value) {
    ReadJson<T>(value);
  }
  template <typename T>
  void ReadJson(auto& value) {
    const std::optional<std::string> text = query_.OptionalText();
    if (!text) return;
    absl::StatusOr<T> decoded = DecodeColumn<T>(*text);
    Note(decoded.status());
    if (decoded.ok()) value = *std::move(decoded);
  }

  Query& query_;
  JobRow& row_;
};

}  // namespace

std::string InsertJobSql() {
  const Job job;
  Names names;
  FixedColumns(names, job);
  ChangingColumns(names, job);
  return absl::StrCat("INSERT INTO jobs (", absl::StrJoin(names.columns, ", "),
                      ") VALUES (", Placeholders(names.columns.size()), ")");
}

std::string UpdateJobSql() {
  const Job job;
  Names names;
  ChangingColumns(names, job);
  return absl::StrCat("UPDATE jobs SET (", absl::StrJoin(names.columns, ", "),
                      ") = (", Placeholders(names.columns.size()),
                      ") WHERE number = ?");
}

void BindFixed(Query& query, const Job& job) {
  Binder binder(query);
  FixedColumns(binder, job);
}

void BindChanging(Query& query, const Job& job) {
  Binder binder(query);
  ChangingColumns(binder, job);
}

std::string WholeColumns() { return SelectedColumns(false); }

std::string SummaryColumns() { return SelectedColumns(true); }

JobRow ReadWhatCanBe(Query& query) {
  JobRow row;
  row.number = query.Int();
  Reader reader(query, row);
  FixedColumns(reader, row.job);
  ChangingColumns(reader, row.job);
  SeparateColumns(reader, row.job);
  return row;
}

absl::StatusOr<JobRow> ReadJobRow(Query& query) {
  JobRow row = ReadWhatCanBe(query);
  if (!row.fault.ok()) return row.fault;
  return row;
}

void ReadLabels(Connection& c, JobRow& row) {
  Query query(c, "SELECT key, value FROM labels WHERE job = ?", row.number);
  while (query.Next()) {
    std::string key = query.Text();
    row.job.labels[std::move(key)] = query.Text();
  }
  row.job.tags = ReadTags(c, row.job.id);
}

absl::Status CheckUnused(Connection& c, const std::string& id) {
  Query query(c,
              "SELECT id FROM job_uses JOIN jobs ON number = job "
              "WHERE used = (SELECT number FROM jobs WHERE id = ?) "
              "AND state IN (1, 2) LIMIT 1",
              id);
  if (!query.Next()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", query.Text(), ", which has not ended, uses files of ", "job ", id,
      ": wait for it or cancel it first"));
}

std::vector<std::string> ReadTags(Connection& c, const std::string& job_id) {
  std::vector<std::string> tags;
  Query query(c, "SELECT tag FROM job_tags WHERE job_id = ? ORDER BY tag",
              job_id);
  while (query.Next()) tags.push_back(query.Text());
  return tags;
}

std::vector<FoundJob> ReadFoundJobs(Query& query) {
  std::vector<FoundJob> found;
  while (query.Next()) {
    FoundJob& job = found.emplace_back();
    job.id = query.Text();
    job.name = query.Text();
    job.state = static_cast<State>(query.Int());
    job.owner = query.Text();
  }
  return found;
}

void Shorten(Job& job) {
  const auto shorten = [](const char*, auto& value, const Shown& shown = {}) {
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      if (shown.bytes > 0) value = base::Shortened(value, shown.bytes);
    }
  };
  ChangingColumns(shorten, job);
}

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
std::vector<Label> RarestFirst(Connection& c, const ListFilter& filter)
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

using BoundValue = std::variant<int64_t, double, std::string>;

// The rows of a list: FROM and WHERE, and the values for their question marks.
struct Rows {
  std::string from;
  // The column that is the job's number and that `from` is walked along.
  std::string number;
  std::vector<std::string> where = {};
  std::vector<BoundValue> values = {};

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
Rows BeginRows(Connection& c, const ListFilter& filter)
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
Rows MatchingRows(Connection& c, const ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  Rows rows = BeginRows(c, filter);
  if (!filter.states.empty()) {
    const std::vector<std::string> states(filter.states.size(), "?");
    rows.Add(absl::StrCat("l.state IN (", absl::StrJoin(states, ", "), ")"));
    for (State state : filter.states) {
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

const char* ListColumnOf(ListOrder order) {
  switch (order) {
    case ListOrder::kCreated:
      break;
    case ListOrder::kEndTime:
      return "l.end_time_us";
    case ListOrder::kName:
      return "l.name";
    case ListOrder::kOwner:
      return "l.owner";
    case ListOrder::kState:
      return "l.state";
    case ListOrder::kPriority:
      return "l.priority";
    case ListOrder::kEvalLoss:
      return "l.eval_loss";
    case ListOrder::kDeviceTime:
      return "l.device_us";
    case ListOrder::kStoredBytes:
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
void AddPlace(Connection& c, const ListFilter& filter, Rows& rows)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  const ListPlace& place = *filter.after;
  const int64_t number = NumberOf(c, place.id, filter.ascending);
  const char* column = ListColumnOf(filter.order);
  const char* beyond = filter.ascending ? " > ?" : " < ?";
  const std::string number_beyond = absl::StrCat(rows.number, beyond);
  if (column == nullptr) return rows.Add(number_beyond, number);
  if (std::holds_alternative<std::monostate>(place.value)) {
    return rows.Add(absl::StrCat(column, " IS NULL AND ", number_beyond),
                    number);
  }
  rows.where.push_back(absl::StrCat("(", column, beyond, " OR ", column,
                                    " = ? AND ", number_beyond, " OR ", column,
                                    " IS NULL)"));
  std::visit(
      [&rows](const auto& value) {
        if constexpr (!std::is_same_v<decltype(value), const std::monostate&>) {
          rows.values.insert(rows.values.end(), 2, BoundValue(value));
        }
      },
      place.value);
  rows.values.emplace_back(number);
}

// Chooses the rows in the narrow table, and then reads those of jobs. `walks`:
// along the order's index, which is cheap unless a filter excludes most of it;
// else the rows are sorted, which a plus makes SQLite do.
std::string PageSql(const ListFilter& filter, const Rows& rows, bool walks) {
  const char* way = filter.ascending ? "" : " DESC";
  const char* column = ListColumnOf(filter.order);
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

void BindAll(Query& query, const std::vector<BoundValue>& values) {
  for (const BoundValue& value : values) {
    std::visit([&query](const auto& one) { query.Bind(one); }, value);
  }
}

}  // namespace

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(absl::StrCat("no job ", id));
}

std::string LikePattern(const std::string& text) {
  return absl::StrCat(
      "%",
      absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"%", "\\%"}, {"_", "\\_"}}),
      "%");
}

absl::StatusOr<std::vector<Job>> ListJobs(Connection& c,
                                          const ListFilter& filter) {
  std::vector<Job> listed;
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

int64_t CountJobs(Connection& c, const ListFilter& filter) {
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

}  // namespace mpsd::jobs
