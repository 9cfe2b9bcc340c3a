// SPDX-License-Identifier: Apache-2.0
#include "client/study.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/command_line.h"
#include "client/inputs.h"
#include "client/job_id.h"
#include "client/profile.h"
#include "client/submit.h"
#include "client/sweep.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "client/verbs.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

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

// Reads the part of TOML that thresholds need: [TABLE], NAME = NUMBER,
// comments. Anything else is refused with its line, so that no threshold is
// overlooked.
absl::Status AddFile(const std::string& path, Thresholds* out) {
  ASSIGN_OR_RETURN(const std::string text,
                   base::ReadSmallFile(path, kLargestFile));
  std::set<std::string> names;
  std::string table;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
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
    RETURN_IF_ERROR(Add(where, table, line, out, &name));
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": ", base::Quotable(name), " is given twice"));
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
    RETURN_IF_ERROR(AddFile(arguments.file, out));
  }
  for (const std::string& text : arguments.values) {
    std::string name;
    RETURN_IF_ERROR(Add("--threshold", "", text, out, &name));
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
                "Queue it even if it needs more memory than the machine has");
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
  // With --json, stdout is the result's, for scripts; the job's progress is for
  // the user.
  const Console course{console.json ? console.err : console.out, console.err,
                       console.terminal, console.daemon, false};
  v1::StudyResult result;
  const ExitCode found = FindOut(course, arguments, study, &result);
  return found == ExitCode::kOk ? ShowStudy(console, result, print) : found;
}

// A study whose kind has no printer shows only its findings.
void PrintAnyStudy(const v1::StudyResult& result, const Console& console) {
  switch (result.result_case()) {
    case v1::StudyResult::kProbe:
      return PrintProbe(result, console);
    case v1::StudyResult::kBatchSweep:
      return PrintBatchSweep(result, console);
    case v1::StudyResult::kDeviceComparison:
      return PrintDeviceComparison(result, console);
    case v1::StudyResult::kProfile:
      return PrintProfile(result, console);
    case v1::StudyResult::kSmoke:
      return PrintSmoke(result, console);
    default:
      return;
  }
}

namespace {

constexpr int kMostRows = 1'000'000;

struct SmokeArguments {
  StudyArguments study;
  int32_t rows = 0;
};

std::string BytesOr(bool known, int64_t bytes) {
  return known ? Bytes(bytes) : "-";
}

ExitCode RunSmoke(const Console& console, const SmokeArguments& arguments) {
  v1::Study study;
  v1::SmokeOptions& options = *study.mutable_smoke();
  options.set_rows(arguments.rows);
  const absl::Status added =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  return RunStudy(console, arguments.study, study, PrintSmoke);
}

}  // namespace

void PrintSmoke(const v1::StudyResult& result, const Console& console) {
  if (!result.has_smoke()) return;
  const v1::SmokeResult& smoke = result.smoke();
  Table table({"EPOCH", "LIVE", "DRIVER", "FOOTPRINT", "SWAP", "HEAT",
               "PRESSURE", "STEP"});
  for (const v1::SmokeEpoch& epoch : smoke.epochs()) {
    table.Add({absl::StrCat(epoch.epoch()),
               BytesOr(epoch.has_allocated_bytes(), epoch.allocated_bytes()),
               BytesOr(epoch.has_driver_bytes(), epoch.driver_bytes()),
               BytesOr(epoch.has_footprint_bytes(), epoch.footprint_bytes()),
               BytesOr(epoch.has_swap_used_bytes(), epoch.swap_used_bytes()),
               OrDash(epoch.thermal()), OrDash(epoch.memory_pressure()),
               absl::StrFormat("%.3g s", epoch.step_seconds())});
  }
  table.Print(console.out, 0);
  console.out << absl::StrFormat(
      "%d rows, %d steps an epoch on %s; memory by the %s: %+.1f %%\n",
      smoke.rows(), smoke.steps_per_epoch(), Printable(smoke.device()),
      Printable(smoke.memory_from()), 100 * smoke.memory_growth());
}

void AddSmoke(Command& app, Action* action) {
  auto arguments = std::make_shared<SmokeArguments>();
  Command* verb = app.add_subcommand(
      "smoke", "Ten short epochs of a slice: is memory stable?");
  DeclareStudy(*verb, &arguments->study);
  verb->add_option("--rows", arguments->rows,
                   "Rows from the beginning of the data; by default those of "
                   "four steps")
      ->type_name("N")
      ->check(Range(1, kMostRows));
  verb->callback([=] {
    *action = [=](const Console& console) {
      return RunSmoke(console, *arguments);
    };
  });
}

void PrintProbe(const v1::StudyResult& result, const Console& console) {
  if (!result.has_probe()) return;
  const v1::ProbeResult& probe = result.probe();
  std::ostream& out = console.out;
  out << "Device     " << Printable(probe.device()) << ", "
      << Printable(probe.device_description()) << '\n';
  out << "Rows       " << probe.step_rows() << " a step, "
      << probe.micro_batch_rows() << " at a time, the longest has "
      << probe.longest_row_tokens() << " tokens\n";
  if (probe.steps() > 0) {
    out << absl::StrFormat(
        "Step       %.3g s (%.3g to %.3g s), %s tokens/s, over %d steps\n",
        probe.step_seconds().median(), probe.step_seconds().p10(),
        probe.step_seconds().p90(), Count(probe.tokens_per_second()),
        probe.steps());
  }
  out << "Memory     " << Bytes(probe.peak_bytes()) << " by the "
      << Printable(probe.peak_from()) << ", estimated "
      << Bytes(probe.estimate().total_bytes()) << ", "
      << Bytes(probe.memory_limit_bytes()) << " may be held\n";
}

namespace {

struct Arguments {
  StudyArguments study;
  std::vector<std::string> devices;
  int steps = 0;
  std::optional<int> warmup_steps;
};

// Times of steps: thousandths of a second matter.
std::string Time(double seconds) {
  return seconds < 1 ? absl::StrFormat("%.3g ms", 1000 * seconds)
                     : absl::StrFormat("%.3g s", seconds);
}

void AddRow(const v1::DeviceTimes& times, Table& table) {
  table.Add({times.device(), Time(times.step_seconds().median()),
             Time(times.step_seconds().p10()), Time(times.step_seconds().p90()),
             Percent(times.data_wait_ratio()),
             Time(times.loader_seconds().median()),
             times.has_utilization_ratio() ? Percent(times.utilization_ratio())
                                           : "unknown",
             Count(times.tokens_per_second()), Percent(times.padding_ratio()),
             times.has_peak_bytes() ? Bytes(times.peak_bytes()) : "unknown",
             times.description()});
}

std::string DecisionName(v1::DeviceDecision decision,
                         const std::string& baseline) {
  switch (decision) {
    case v1::DEVICE_DECISION_GO:
      return "go";
    case v1::DEVICE_DECISION_FIX_DATA:
      return "fix the data and the batch first";
    case v1::DEVICE_DECISION_STAY_ON_CPU:
      return absl::StrCat("stay on ", baseline);
    default:
      return "none";
  }
}

ExitCode Compare(const Console& console, const Arguments& arguments) {
  v1::Study study;
  v1::DeviceComparisonOptions& options = *study.mutable_device_comparison();
  for (const std::string& device : arguments.devices) {
    options.add_devices(device);
  }
  options.set_steps(arguments.steps);
  if (arguments.warmup_steps) options.set_warmup_steps(*arguments.warmup_steps);
  const absl::Status set =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (!set.ok()) {
    return console.Fail(ExitCode::kBadInput, set, "Nothing was submitted.");
  }
  return RunStudy(console, arguments.study, study, PrintDeviceComparison);
}

}  // namespace

void PrintDeviceComparison(const v1::StudyResult& result,
                           const Console& console) {
  const v1::DeviceComparisonResult& comparison = result.device_comparison();
  Table table({"DEVICE", "STEP", "P10", "P90", "WAITS", "LOADER", "BUSY",
               "TOKENS/S", "PADDING", "MEMORY", "WHAT"});
  AddRow(comparison.baseline(), table);
  AddRow(comparison.measured(), table);
  table.Print(console.out, 0);
  console.out << comparison.steps() << " steps each after "
              << comparison.warmup_steps() << " of warm-up, "
              << (comparison.same_batches() ? "of the same samples"
                                            : "of other samples")
              << "\nDecision: "
              << DecisionName(comparison.decision(),
                              Printable(comparison.baseline().device()))
              << " (" << Printable(comparison.reason()) << ")\n";
}

void AddCompareDevices(Command& app, Action* action) {
  auto arguments = std::make_shared<Arguments>();
  Command* verb = app.add_subcommand(
      "compare-devices",
      "Whether a job runs faster on MPS or CUDA than on the CPU");
  DeclareStudy(*verb, &arguments->study);
  verb->add_option("--devices", arguments->devices,
                   "Two of cpu, cuda, mps: the baseline, the candidate; "
                   "default: the CPU, and the accelerator")
      ->type_name("A,B")
      ->delimiter(',')
      ->expected(2)
      ->check(IsMember({"cpu", "cuda", "mps"}));
  verb->add_option("--steps", arguments->steps,
                   "Steps to measure on each; default 20")
      ->type_name("N")
      ->check(Range(1, 1000));
  verb->add_option("--warmup-steps", arguments->warmup_steps,
                   "Steps before these; default 3")
      ->type_name("N")
      ->check(Range(0, 1000));
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Compare(console, *arguments);
    };
  });
}

}  // namespace mpsd::client
