// SPDX-License-Identifier: Apache-2.0
#include "client/study.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/command_line.h"
#include "client/given.h"
#include "client/inputs.h"
#include "client/job_labels.h"
#include "client/send_job.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/upload.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/small_file.h"

namespace mpsd::client {
namespace {

constexpr size_t kLargestFile = 1 << 20;  // of thresholds, bytes

using Thresholds = google::protobuf::Map<std::string, double>;

absl::Status Expected(const std::string& where, const char* what,
                      absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": expected ", what, ", got ",
                   base::Quotable(std::string(found))));
}

// Adds "NAME=NUMBER" with `prefix` before the name.
absl::Status Add(const std::string& where, const std::string& prefix,
                 absl::string_view text, Thresholds* out, std::string* added) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  absl::string_view name = absl::StripAsciiWhitespace(parts[0]);
  // TOML's quotes.
  if (name.size() > 2 && name.front() == '"' && name.back() == '"') {
    name = name.substr(1, name.size() - 2);
  }
  double value = 0;
  if (parts.size() != 2 || name.empty() ||
      !absl::SimpleAtod(parts[1], &value)) {
    return Expected(where, "NAME=NUMBER", text);
  }
  *added = absl::StrCat(prefix, name);
  (*out)[*added] = value;
  return absl::OkStatus();
}

// Reads as much of TOML as thresholds need: [TABLE], NAME = NUMBER, comments.
// Anything else is refused with its line, so that no threshold is overlooked.
absl::Status AddFile(const std::string& path, Thresholds* out) {
  const absl::StatusOr<std::string> text =
      base::ReadSmallFile(path, kLargestFile);
  if (!text.ok()) return text.status();
  std::set<std::string> names;
  std::string table;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::string where = absl::StrCat(path, ":", ++number);
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (line.front() == '[') {
      if (line.size() < 3 || line.back() != ']') {
        return Expected(where, "[TABLE]", line);
      }
      table = absl::StrCat(
          absl::StripAsciiWhitespace(line.substr(1, line.size() - 2)), ".");
      continue;
    }
    std::string name;
    absl::Status added = Add(where, table, line, out, &name);
    if (!added.ok()) return added;
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", base::Quotable(name), " stands twice"));
    }
  }
  return absl::OkStatus();
}

ExitCode Submit(const Console& console, const StudyArguments& arguments,
                const v1::Study& study, std::string* job_id) {
  absl::StatusOr<PreparedJob> job =
      PrepareJob(arguments.job_file, Hashing(console, arguments.rehash));
  if (!job.ok()) {
    return console.Fail(ExitCode::kBadInput, job.status(),
                        "Nothing was submitted.");
  }
  v1::SubmitRequest request = RequestOf(*job);
  request.set_priority(arguments.priority);
  request.set_anyway(arguments.anyway);
  *request.mutable_study() = study;
  absl::Status added =
      AddJobLabels(arguments.job_labels, request.mutable_labels());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  const auto upload = [&] { return Upload(console, job->files); };
  const grpc::Status status = upload();
  if (!status.ok()) return console.Fail(status);
  return SendJob(console, std::move(request), upload, arguments.detach, job_id);
}

}  // namespace

void DeclareThresholds(Command& verb, ThresholdArguments* arguments) {
  verb.add_option("--threshold", arguments->values,
                  "A threshold in place of mpsd's own; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb.add_option("--thresholds", arguments->file, "A TOML file of thresholds")
      ->type_name("FILE")
      ->check(Given);
}

absl::Status AddThresholds(const ThresholdArguments& arguments,
                           google::protobuf::Map<std::string, double>* out) {
  if (!arguments.file.empty()) {
    absl::Status read = AddFile(arguments.file, out);
    if (!read.ok()) return read;
  }
  for (const std::string& text : arguments.values) {
    std::string name;
    absl::Status added = Add("--threshold", "", text, out, &name);
    if (!added.ok()) return added;
  }
  if (out->size() <= limits::kThresholds) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there are ", out->size(), " thresholds, at most ",
                   limits::kThresholds, " are allowed"));
}

void DeclareStudy(Command& verb, StudyArguments* arguments) {
  verb.add_option("JOB", arguments->job_file, "The job.json")
      ->required()
      ->type_name("")
      ->check(Given);
  verb.add_flag("--detach", arguments->detach,
                "Do not watch: exit once queued");
  verb.add_option("--priority", arguments->priority,
                  "Higher runs first, equals in turn")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--label", arguments->job_labels,
                  "To find the job by; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb.add_flag("--anyway", arguments->anyway,
                "Queue it though it needs more memory than the machine has");
  verb.add_flag("--rehash", arguments->rehash,
                "Read every file again, also those that have not changed");
  DeclareThresholds(verb, &arguments->thresholds);
}

std::string VerdictName(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_PASS:
      return "ok";
    case v1::VERDICT_WARN:
      return "warn";
    case v1::VERDICT_FAIL:
      return "fail";
    default:
      return "-";
  }
}

void PrintFindings(
    const google::protobuf::RepeatedPtrField<v1::Finding>& findings,
    std::ostream& out) {
  if (findings.empty()) return;
  Table table({"VERDICT", "WHAT", "FOUND"});
  for (const v1::Finding& finding : findings) {
    table.Add(
        {VerdictName(finding.verdict()), finding.name(), finding.found()});
  }
  table.Print(out, 0);
  for (const v1::Finding& finding : findings) {
    if (finding.advice().empty()) continue;
    out << Printable(finding.name()) << ": " << Printable(finding.advice())
        << '\n';
  }
}

ExitCode ShowStudy(const Console& console, const v1::StudyResult& result,
                   const PrintStudy& print) {
  if (console.json) {
    console.PrintJson(result);
  } else {
    print(result, console);
    PrintFindings(result.findings(), console.out);
    console.out << "Verdict: " << VerdictName(result.verdict()) << '\n';
  }
  return ForVerdict(result.verdict());
}

grpc::Status GetStudyResult(const Console& console, const std::string& job_id,
                            v1::StudyResult* result) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetStudyResultRequest request;
  request.set_id(job_id);
  return console.daemon.runbook().GetStudyResult(&context, request, result);
}

ExitCode FindOut(const Console& console, const StudyArguments& arguments,
                 const v1::Study& study, v1::StudyResult* result) {
  std::string id;
  const ExitCode followed = Submit(console, arguments, study, &id);
  if (followed != ExitCode::kOk || arguments.detach) return followed;
  const grpc::Status status = GetStudyResult(console, id, result);
  return status.ok() ? ExitCode::kOk : console.Fail(status);
}

ExitCode RunStudy(const Console& console, const StudyArguments& arguments,
                  const v1::Study& study, const PrintStudy& print) {
  if (arguments.detach) return Submit(console, arguments, study, nullptr);
  // With --json the result alone is for the script; the job's course is for who
  // looks on.
  const Console course{console.json ? console.err : console.out, console.err,
                       console.terminal, console.daemon, false};
  v1::StudyResult result;
  const ExitCode found = FindOut(course, arguments, study, &result);
  return found == ExitCode::kOk ? ShowStudy(console, result, print) : found;
}

}  // namespace mpsd::client
