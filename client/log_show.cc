// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command_line.h"
#include "client/log_verbs.h"
#include "client/record_pages.h"
#include "client/record_text.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/table.h"

namespace mpsd::client {
namespace {

void PrintAttempts(const Console& console, const v1::Record& record) {
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

void PrintNotes(const Console& console, const v1::Record& record) {
  if (record.notes().empty()) return;
  console.out << "\nNOTES\n";
  for (const v1::RecordNote& note : record.notes()) {
    console.out << DateTime(ToTime(note.time()), console.terminal.zone) << "  "
                << (note.author().empty() ? "-" : Printable(note.author()))
                << (note.rejected() ? "  rejected" : "") << "\n  "
                << PrintableLines(note.text()) << '\n';
  }
}

ExitCode Show(const Console& console, const std::string& id) {
  v1::Record record;
  const grpc::Status status = FetchRecord(console, id, &record);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(record);
  } else {
    PrintRecord(console, record);
  }
  return ExitCode::kOk;
}

}  // namespace

void PrintRecord(const Console& console, const v1::Record& record) {
  console.out << Printable(record.id());
  if (!record.tags().empty()) {
    console.out << "  "
                << Printable(absl::StrCat(
                       "[", absl::StrJoin(record.tags(), ", "), "]"));
  }
  console.out << '\n';
  for (const RecordSection& section :
       DescribeRecord(record, console.terminal.zone)) {
    console.out << '\n';
    Table table({section.title, ""});
    for (const RecordRow& row : section.rows) {
      table.Add({row.name, row.value.empty() ? kNotTold : row.value});
    }
    table.Print(console.out, 0);
  }
  PrintAttempts(console, record);
  if (!record.findings().empty()) {
    console.out << '\n';
    PrintFindings(record.findings(), console.out);
  }
  if (!record.warnings().empty()) console.out << "\nWARNINGS\n";
  for (const std::string& warning : record.warnings()) {
    console.out << "  " << Printable(warning) << '\n';
  }
  PrintNotes(console, record);
}

void AddLogShow(Command& log, Action* action) {
  auto id = std::make_shared<std::string>();
  Command* verb = log.add_subcommand("show", "All of one record");
  verb->fallthrough();
  verb->add_option(kJobIdName, *id, "The record: a job's id, or a part of it")
      ->required()
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Show(console, *id); };
  });
}

}  // namespace mpsd::client
