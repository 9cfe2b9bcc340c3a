// SPDX-License-Identifier: Apache-2.0
#include "client/record_lines.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/record_text.h"
#include "client/text/csv.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCsvColumns[] = {"id",
                                       "kind",
                                       "state",
                                       "verdict",
                                       "exit_reason",
                                       "name",
                                       "owner",
                                       "model",
                                       "created",
                                       "ended",
                                       "attempts",
                                       "tags",
                                       "torch",
                                       "mpsd",
                                       "commit",
                                       "device",
                                       "system",
                                       "processor",
                                       "dtype",
                                       "batch_size",
                                       "accumulation",
                                       "max_length",
                                       "steps",
                                       "eval_loss",
                                       "best_eval_loss",
                                       "train_loss",
                                       "metrics",
                                       "peak_bytes",
                                       "fallbacks",
                                       "train_sha256",
                                       "request",
                                       "queue_seconds",
                                       "load_seconds",
                                       "first_step_seconds",
                                       "step_seconds",
                                       "device_seconds",
                                       "pauses",
                                       "pause_seconds",
                                       "power",
                                       "thermal",
                                       "memory_pressure",
                                       "most_swap_bytes",
                                       "message",
                                       "notes"};

constexpr const char* kMarkdownColumns[] = {
    "Record",    "Ended", "Who",   "Kind",   "State", "Verdict", "Model",
    "Eval loss", "Step",  "Torch", "Device", "Tags",  "Name",    "Notes"};

template <typename T>
Json Told(bool told, const T& value) {
  return told ? Json(value) : Json(nullptr);
}

Json Text(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

std::string Rfc3339(const google::protobuf::Timestamp& time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", ToTime(time),
                          absl::UTCTimeZone());
}

std::string NotesOf(const v1::Record& record) {
  std::vector<std::string> notes;
  for (const v1::RecordNote& note : record.notes()) {
    notes.push_back(absl::StrCat(note.author(),
                                 note.rejected() ? " (rejected)" : "", ": ",
                                 note.text()));
  }
  return absl::StrJoin(notes, "; ");
}

Json Metrics(const v1::Record& record) {
  if (record.metrics().empty()) return nullptr;
  const std::map<std::string, double> sorted(record.metrics().begin(),
                                             record.metrics().end());
  Json json = Json::object();
  for (const auto& [name, value] : sorted) json[name] = value;
  return json;
}

std::string CsvRecord(const v1::Record& r) {
  const v1::RunEnvironment& e = r.environment();
  const v1::RunShape& s = r.shape();
  const v1::RunDurations& d = r.durations();
  const v1::RunConditions& c = r.conditions();
  const bool job = r.kind() != v1::JOB_KIND_UNSPECIFIED;
  return CsvLine(
      {r.id(),
       RecordKindName(r),
       Told(job, StateName(r.state())),
       Told(r.verdict() != 0, RecordVerdict(r)),
       Text(r.exit_reason()),
       Text(r.name()),
       Text(r.owner()),
       Text(r.model()),
       Told(r.has_create_time(), Rfc3339(r.create_time())),
       Told(r.has_end_time(), Rfc3339(r.end_time())),
       Told(job, r.attempt_count()),
       Text(absl::StrJoin(r.tags(), " ")),
       Text(e.torch_version()),
       Text(e.worker_version()),
       Text(e.daemon_commit()),
       Text(e.device()),
       Text(e.operating_system()),
       Text(e.processor()),
       Text(e.dtype()),
       Told(s.batch_size() > 0, s.batch_size()),
       Told(s.gradient_accumulation_steps() > 0,
            s.gradient_accumulation_steps()),
       Told(s.has_max_length(), s.max_length()),
       Told(job, r.steps()),
       Told(r.has_eval_loss(), r.eval_loss()),
       Told(r.has_best_evaluation(), r.best_evaluation().eval_loss()),
       Told(r.has_train_loss(), r.train_loss()),
       Metrics(r),
       Told(r.memory().has_peak_allocated_bytes(),
            r.memory().peak_allocated_bytes()),
       Told(r.has_fallbacks(), r.fallbacks().ops_size()),
       Text(r.data().train_sha256()),
       Text(r.request_hash()),
       Told(d.has_queue_seconds(), d.queue_seconds()),
       Told(d.has_load_seconds(), d.load_seconds()),
       Told(d.has_first_step_seconds(), d.first_step_seconds()),
       Told(d.has_steady_step_seconds(), d.steady_step_seconds()),
       Told(r.has_durations(), d.device_seconds()),
       Told(r.has_pauses(), r.pauses().count()),
       Told(r.has_pauses(), r.pauses().seconds()),
       Text(absl::StrJoin(c.power_sources(), " ")),
       Text(absl::StrJoin(c.thermal_levels(), " ")),
       Text(absl::StrJoin(c.memory_pressures(), " ")),
       Told(c.has_most_swap_bytes(), c.most_swap_bytes()),
       Text(r.message()),
       Text(NotesOf(r))});
}

// A cell that shows `text` as it is: whatever Markdown or HTML would take for
// its own is escaped.
std::string Cell(const std::string& text) {
  std::string cell;
  // Addresses would become links without any markup.
  const std::string shown = absl::StrReplaceAll(
      Printable(text), {{"://", ":\n//"}, {"www.", "www\n."}});
  for (const char c : shown) {
    switch (c) {
      case '\n':  // Printable leaves none
        cell += "&#8203;";
        break;
      case '<':
        cell += "&lt;";
        break;
      case '>':
        cell += "&gt;";
        break;
      case '&':
        cell += "&amp;";
        break;
      case '@':  // of a name that would be told
        cell += "&#64;";
        break;
      case '|':
      case '\\':
      case '`':
      case '*':
      case '_':
      case '{':
      case '}':
      case '[':
      case ']':
      case '(':
      case ')':
      case '#':
      case '!':
      case '~':
      case '$':
        cell += '\\';
        [[fallthrough]];
      default:
        cell += c;
    }
  }
  return cell.empty() ? "-" : cell;
}

std::string MarkdownRecord(const v1::Record& r, absl::TimeZone zone) {
  const bool job = r.kind() != v1::JOB_KIND_UNSPECIFIED;
  const v1::RunDurations& d = r.durations();
  std::string line = "|";
  for (const std::string& text :
       {r.id(), DateTime(ToTime(r.end_time()), zone), r.owner(),
        RecordKindName(r), job ? StateName(r.state()) : "", RecordVerdict(r),
        r.model(), r.has_eval_loss() ? Loss(r.eval_loss()) : "",
        d.has_steady_step_seconds() ? Seconds(d.steady_step_seconds()) : "",
        r.environment().torch_version(), r.environment().device(),
        std::string(absl::StrJoin(r.tags(), ", ")), r.name(), NotesOf(r)}) {
    absl::StrAppend(&line, " ", Cell(text), " |");
  }
  return line + "\n";
}

}  // namespace

std::string RecordHeader(RecordFormat format) {
  if (format == RecordFormat::kCsv) {
    std::vector<Json> names(std::begin(kCsvColumns), std::end(kCsvColumns));
    return CsvLine(names);
  }
  if (format == RecordFormat::kJsonLines) return "";
  std::string names = "|", rule = "|";
  for (const char* name : kMarkdownColumns) {
    absl::StrAppend(&names, " ", name, " |");
    rule += "---|";
  }
  return absl::StrCat(names, "\n", rule, "\n");
}

std::string RecordLine(const v1::Record& record, RecordFormat format,
                       absl::TimeZone zone) {
  switch (format) {
    case RecordFormat::kCsv:
      return CsvRecord(record);
    case RecordFormat::kMarkdown:
      return MarkdownRecord(record, zone);
    case RecordFormat::kJsonLines:
      break;
  }
  return ToJson(record).dump(-1, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace mpsd::client
