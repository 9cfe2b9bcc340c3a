// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_row.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "core/base/text.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/report/report_json.h"
#include "server/jobs/job.h"

namespace mpsd::store {

namespace {

using jobs::EventFields;
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
  void operator()(const char* name, jobs::State value) {
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
  void operator()(const char* name, jobs::State& value) {
    int64_t number = 0;
    (*this)(name, number);
    const auto state = report::Numbered(jobs::kStates, number);
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
constexpr bool kIsBody = std::is_same_v<Value, jobs::Progress> ||
                         std::is_same_v<Value, jobs::Evaluated>;

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
      return DecodeAs<jobs::StateChanged>(text);
    case kProgressKind:
      return DecodeAs<jobs::Progress>(text);
    case 3:
      return DecodeAs<jobs::Evaluated>(text);
    case 4:
      return DecodeAs<jobs::Checkpoint>(text);
    case 5:
      return DecodeAs<jobs::Note>(text);
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
    Json object = Json::object();
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

template std::string EncodeColumn(const jobs::Progress&);
template std::string EncodeColumn(const jobs::Evaluated&);
template std::string EncodeColumn(const jobs::Metrics&);
template std::string EncodeColumn(const std::vector<std::string>&);
template absl::StatusOr<jobs::Progress> DecodeColumn(const std::string&);
template absl::StatusOr<jobs::Evaluated> DecodeColumn(const std::string&);
template absl::StatusOr<jobs::Metrics> DecodeColumn(const std::string&);
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
  v("behind", job.behind);
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
  const jobs::Job job;
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
    } else if constexpr (std::is_same_v<T, jobs::ExitReason>) {
      query_.Bind(std::string(jobs::Name(value)));
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
  void Read(jobs::State& value) {
    value = jobs::State::kFailed;
    ReadNumber(jobs::kStates, "state ", value);
  }
  void Read(jobs::JobKind& value) {
    ReadNumber(jobs::kJobKinds, "kind ", value);
  }
  void Read(jobs::OutputKind& value) {
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
  void Read(std::optional<jobs::ExitReason>& value) {
    const std::optional<std::string> name = query_.OptionalText();
    if (!name) return;
    for (const auto& known : jobs::kExitReasons) {
      if (*name == known.name) value = known.value;
    }
    if (!value) NoteUnknown("exit reason " + base::Quotable(*name));
  }
  void Read(jobs::Metrics& value) { ReadJson<jobs::Metrics>(value); }
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
  const jobs::Job job;
  Names names;
  FixedColumns(names, job);
  ChangingColumns(names, job);
  return absl::StrCat("INSERT INTO jobs (", absl::StrJoin(names.columns, ", "),
                      ") VALUES (", Placeholders(names.columns.size()), ")");
}

std::string UpdateJobSql() {
  const jobs::Job job;
  Names names;
  ChangingColumns(names, job);
  return absl::StrCat("UPDATE jobs SET (", absl::StrJoin(names.columns, ", "),
                      ") = (", Placeholders(names.columns.size()),
                      ") WHERE number = ?");
}

void BindFixed(Query& query, const jobs::Job& job) {
  Binder binder(query);
  FixedColumns(binder, job);
}

void BindChanging(Query& query, const jobs::Job& job) {
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

std::vector<std::string> ReadTags(Connection& c, const std::string& job_id) {
  std::vector<std::string> tags;
  Query query(c, "SELECT tag FROM job_tags WHERE job_id = ? ORDER BY tag",
              job_id);
  while (query.Next()) tags.push_back(query.Text());
  return tags;
}

std::vector<jobs::FoundJob> ReadFoundJobs(Query& query) {
  std::vector<jobs::FoundJob> found;
  while (query.Next()) {
    jobs::FoundJob& job = found.emplace_back();
    job.id = query.Text();
    job.name = query.Text();
    job.state = static_cast<jobs::State>(query.Int());
    job.owner = query.Text();
  }
  return found;
}

void Shorten(jobs::Job& job) {
  const auto shorten = [](const char*, auto& value, const Shown& shown = {}) {
    if constexpr (std::is_same_v<decltype(value), std::string&>) {
      if (shown.bytes > 0) value = base::Shortened(value, shown.bytes);
    }
  };
  ChangingColumns(shorten, job);
}

}  // namespace mpsd::store
