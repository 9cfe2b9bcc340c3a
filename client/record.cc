// SPDX-License-Identifier: Apache-2.0
#include "client/record.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/list_columns.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/text/table.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSections[] = {"environment", "shape",    "memory",
                                     "fallbacks",   "data",     "conditions",
                                     "pauses",      "durations"};
constexpr const char* kResults[] = {
    "state",     "exit_reason", "verdict",
    "steps",     "train_loss",  "eval_loss_before",
    "eval_loss", "metrics",     "best_evaluation"};

std::string ValueText(const std::string& field, const Json& value,
                      absl::TimeZone zone) {
  constexpr double kExact = 10;  // seconds
  if (value.is_number() && absl::EndsWith(field, "_ratio")) {
    return absl::StrFormat("%.0f %%", 100 * value.get<double>());
  }
  if (value.is_number() && absl::EndsWith(field, "_seconds") &&
      value.get<double>() < kExact) {
    return absl::StrFormat("%.3gs", value.get<double>());
  }
  const std::string text = FieldText(field, value, zone);
  return text.empty() ? "-" : Printable(text);
}

// "user active" for user_active_seconds, whose value says the unit.
std::string Title(const std::string& field) {
  std::string title = field;
  for (const char* unit : {"_bytes", "_seconds", "_ratio"}) {
    if (absl::EndsWith(title, unit)) title.resize(title.rfind('_'));
  }
  return absl::StrReplaceAll(title, {{"_", " "}});
}

// A row for a value; of an object, or a list of files, one for each entry.
void AddRows(const std::string& name, const std::string& field,
             const Json& value, absl::TimeZone zone, RecordSection& section) {
  const bool files = value.is_array() && !value.empty() && value[0].is_object();
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, one] : value.items()) {
      AddRows(absl::StrCat(name, " ", key), absl::StrCat(field, ".", key), one,
              zone, section);
    }
  } else if (files) {
    for (const Json& file : value) {
      section.rows.emplace_back(
          Printable(absl::StrCat(name, " ", file.value("path", ""))),
          Printable(file.value("sha256", "")));
    }
  } else {
    section.rows.emplace_back(Printable(name), ValueText(field, value, zone));
  }
}

void PrintAttempts(const Console& console, const v1::JobRecord& record) {
  if (record.attempts_size() < 2) return;
  console.out << '\n';
  Table table({"ATTEMPT", "BEGAN", "STEPS", "DEVICE", "PAUSED", "ENDED AS"});
  int number = record.attempt_count() - record.attempts_size();
  for (const v1::RunAttempt& attempt : record.attempts()) {
    table.Add({absl::StrCat(++number),
               DateTime(ToTime(attempt.start_time()), console.terminal.zone),
               absl::StrCat(attempt.steps()),
               attempt.device().empty() ? "-" : attempt.device(),
               Seconds(attempt.pauses().seconds()), attempt.exit_reason()});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
}

}  // namespace

std::vector<RecordSection> DescribeRecord(const v1::JobRecord& record,
                                          bool results, absl::TimeZone zone) {
  const Json json = ToJson(record);
  std::vector<RecordSection> all;
  for (const char* part : kSections) {
    const Json& object = json[part];
    if (!object.is_object()) continue;
    RecordSection section{absl::AsciiStrToUpper(part), {}};
    for (const auto& [field, value] : object.items()) {
      AddRows(Title(field), field, value, zone, section);
    }
    all.push_back(std::move(section));
  }
  if (!results) return all;
  RecordSection section{"RESULTS", {}};
  for (const char* field : kResults) {
    AddRows(Title(field), field, json[field], zone, section);
  }
  all.push_back(std::move(section));
  return all;
}

void PrintRecord(const Console& console, const v1::GetRecordResponse& shown) {
  const v1::JobRecord& record = shown.record();
  for (const RecordSection& section :
       DescribeRecord(record, /*results=*/false, console.terminal.zone)) {
    console.out << '\n';
    Table table({section.title, ""});
    for (const auto& [name, value] : section.rows) table.Add({name, value});
    table.Print(console.out, 0);
  }
  PrintAttempts(console, record);
  if (shown.job().past() && !record.findings().empty()) {
    console.out << '\n';
    PrintFindings(record.findings(), console.out);
  }
  if (!record.notes().empty()) console.out << "\nNOTES\n";
  for (const v1::JobNote& note : record.notes()) {
    console.out << DateTime(ToTime(note.time()), console.terminal.zone) << "  "
                << (note.author().empty() ? "-" : Printable(note.author()))
                << "\n  " << PrintableLines(note.text()) << '\n';
  }
}

grpc::Status FetchRecord(const Console& console, const std::string& id,
                         v1::GetRecordResponse* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRecordRequest request;
  request.set_id(id);
  const grpc::Status status =
      console.daemon.jobs().GetRecord(&context, request, response);
  if (status.error_code() != grpc::StatusCode::NOT_FOUND) return status;
  grpc::ClientContext again;
  SetDeadline(again);
  v1::GetJobRequest get;
  get.set_id(id);
  return console.daemon.jobs().Get(&again, get, response->mutable_job());
}

}  // namespace mpsd::client
