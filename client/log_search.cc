// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/command_line.h"
#include "client/log_verbs.h"
#include "client/record_pages.h"
#include "client/record_text.h"
#include "client/text/format.h"
#include "client/text/table.h"

namespace mpsd::client {
namespace {

constexpr char kHelp[] =
    R"(A query is terms with spaces between them, all of which have to hold. Put it
into single quotes: the shell would take < and > for itself.

  FIELD=VALUE !=    exactly that, or anything else
  FIELD~TEXT        has the text, in either case
  FIELD<VALUE > <= >=   a number; of bytes 4GB, 512MiB; of seconds 90, 10m, 2h
  metric.NAME>0.9   a metric of the last evaluation
  label.NAME=VALUE  a label
  since:30d until:2026-01-31    ended then (dates in UTC)
  tag:NAME
  WORD "A TEXT"     stands in the name, labels, message, a note …

Texts:   id owner name model device reason task dtype torch version commit
         platform sweep power thermal pressure request data
Words:   kind (training probe batch_sweep device_comparison profile smoke
         parity note) · state (succeeded failed cancelled) · verdict (pass
         warn fail)
Numbers: eval_loss best_loss train_loss steps batch attempts fallbacks pauses
         parameters rows tokens
Bytes:   peak (of the device) footprint (of the worker) swap
Seconds: queue load first_step step device_time paused round_trip

What a record does not tell matches nothing.)";

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::vector<std::string> Row(const v1::Record& record,
                             const Terminal& terminal) {
  const v1::RunDurations& durations = record.durations();
  return {record.id(),
          DateTime(ToTime(record.end_time()), terminal.zone),
          OrDash(record.owner()),
          RecordKindName(record),
          record.kind() == v1::JOB_KIND_UNSPECIFIED ? "-"
                                                    : StateName(record.state()),
          RecordVerdict(record),
          record.has_eval_loss() ? Loss(record.eval_loss()) : "-",
          durations.has_steady_step_seconds()
              ? Seconds(durations.steady_step_seconds())
              : "-",
          OrDash(record.environment().device()),
          OrDash(absl::StrJoin(record.tags(), ",")),
          RecordTitle(record)};
}

}  // namespace

std::string JoinQuery(const std::vector<std::string>& words) {
  std::string query;
  for (const std::string& word : words) {
    // `log search too hot "free text"` comes as three words; a query in quotes
    // as one, whose terms are its own business.
    const bool is_text = words.size() > 1 &&
                         word.find(' ') != std::string::npos &&
                         word.find_first_of("=~<>:\"") == std::string::npos;
    absl::StrAppend(&query, query.empty() ? "" : " ",
                    is_text ? absl::StrCat("\"", word, "\"") : word);
  }
  return query;
}

ExitCode SearchLog(const Console& console, const std::string& query,
                   int limit) {
  Table table({"ID", "ENDED", "OWNER", "KIND", "STATE", "VERDICT", "EVAL LOSS",
               "STEP", "DEVICE", "TAGS", "NAME"});
  bool any = false;
  const grpc::Status status =
      ForEachRecord(console, query, limit, [&](const v1::Record& record) {
        any = true;
        if (console.json) {
          console.PrintJson(record);
        } else {
          table.Add(Row(record, console.terminal));
        }
        return true;
      });
  if (!status.ok()) return console.Fail(status);
  if (console.json) return ExitCode::kOk;
  if (!any) {
    console.out << (query.empty() ? "The logbook is empty: a job's record "
                                    "comes when the job has ended.\n"
                                  : "No record matches.\n");
    return ExitCode::kOk;
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
  return ExitCode::kOk;
}

void AddLogSearch(Command& log, Action* action) {
  struct Options {
    std::vector<std::string> query;
    int limit = 50;
  };
  auto options = std::make_shared<Options>();
  Command* verb = log.add_subcommand("search", "Find records");
  verb->fallthrough();
  verb->footer(kHelp);
  verb->add_option("QUERY", options->query,
                   "As 'model~qwen eval_loss<1.0 since:30d'")
      ->required()
      ->type_name("");
  verb->add_option("--limit", options->limit, "At most so many")
      ->check(Range(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) {
      return SearchLog(console, JoinQuery(options->query), options->limit);
    };
  });
}

}  // namespace mpsd::client
