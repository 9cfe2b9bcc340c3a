// SPDX-License-Identifier: Apache-2.0
#include "client/study.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/app.h"
#include "client/download.h"
#include "client/jobs.h"
#include "client/show.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/report/metrics.h"
#include "core/spec/fields.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

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

// Whether `job` is a job.json; otherwise its path is a job's id, which cannot
// be changed.
bool NamesFile(const JobFile& job) {
  std::error_code error;
  return fs::is_regular_file(job.path, error) || job.path == "-" ||
         absl::EndsWith(job.path, ".json") ||
         absl::StrContains(job.path, '/') || !job.set.empty() ||
         !job.unset.empty() || !job.model.empty();
}

// The request of the job that `arguments` name by its id, with its inputs.
ExitCode Repeat(const Console& console, const StudyArguments& arguments,
                v1::SubmitRequest* request) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, arguments.job.path, &code);
  if (!id) return code;
  v1::GetSubmissionRequest ask;
  ask.set_id(*id);
  const grpc::Status status =
      console.daemon.Call(&JobStub::GetSubmission, ask, request);
  if (!status.ok()) return console.Fail(status);
  // Only the job's training settings count.
  request->clear_kind();
  request->clear_after();
  request->set_held(false);
  request->set_priority(arguments.priority);
  request->set_anyway(request->anyway() || arguments.anyway);
  const absl::Status added =
      AddJobLabels(arguments.job_labels, request->mutable_labels());
  return added.ok() ? code : console.BadInput(added);
}

ExitCode Submit(const Console& console, const StudyArguments& arguments,
                const v1::Study& study, std::string* job_id) {
  PreparedJob job;  // without files for an id: they exist as long as the job
  v1::SubmitRequest request;
  const ExitCode code =
      NamesFile(arguments.job)
          ? PrepareToSend(console, arguments, "Nothing was submitted.", &job,
                          &request)
          : Repeat(console, arguments, &request);
  if (code != ExitCode::kOk) return code;
  *request.mutable_study() = study;
  return SendJob(
      console, std::move(request), [&] { return Upload(console, job.files); },
      arguments.detach, job_id);
}

}  // namespace

void DeclareThresholds(Command& verb, ThresholdArguments* arguments) {
  verb.add_list("--threshold NAME=VALUE", arguments->values,
                "A threshold in place of mpsd's own; repeatable");
  verb.add_option("--thresholds FILE", arguments->file,
                  "A TOML file of thresholds")
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
  DeclareQueueing(verb, *arguments);
  verb.get_option("JOB")->description(
      "The job.json, or the id of a job to run so again");
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

void PrintAdvice(
    const google::protobuf::RepeatedPtrField<v1::Finding>& findings,
    std::ostream& out) {
  for (const v1::Finding& finding : findings) {
    if (finding.advice().empty()) continue;
    out << Printable(finding.name()) << ": " << Printable(finding.advice())
        << '\n';
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
  PrintAdvice(findings, out);
}

ExitCode ShowStudy(const Console& console, const v1::StudyResult& result,
                   const PrintStudy& print) {
  if (console.json) {
    console.PrintJson(result);
  } else {
    print(result, console);
    PrintFindings(result.findings(), console.out);
    if (!result.has_generate()) {
      console.out << "Verdict: " << VerdictName(result.verdict()) << '\n';
    }
  }
  return ForVerdict(result.verdict());
}

grpc::Status GetStudyResult(const Console& console, const std::string& job_id,
                            v1::StudyResult* result) {
  v1::GetStudyResultRequest request;
  request.set_id(job_id);
  return console.daemon.Call(&RunbookStub::GetStudyResult, request, result);
}

ExitCode RunStudy(const Console& console, const StudyArguments& arguments,
                  const v1::Study& study, const PrintStudy& print,
                  v1::StudyResult* result) {
  if (arguments.detach) return Submit(console, arguments, study, nullptr);
  // With --json, stdout is the result's, for scripts; the job's progress is for
  // the user.
  const Console course{console.json ? console.err : console.out, console.err,
                       console.terminal, console.daemon, false};
  std::string id;
  const ExitCode followed = Submit(course, arguments, study, &id);
  if (followed != ExitCode::kOk) return followed;
  v1::StudyResult own;
  if (result == nullptr) result = &own;
  const grpc::Status status = GetStudyResult(console, id, result);
  return status.ok() ? ShowStudy(console, *result, print)
                     : console.Fail(status);
}

namespace {

constexpr int kMostRows = 1'000'000;

std::string BytesOr(bool known, int64_t bytes) {
  return known ? base::BytesText(bytes) : "-";
}

// A table of the epochs, above the findings; nothing for another study.
void PrintSmoke(const v1::StudyResult& result, const Console& console) {
  if (!result.has_smoke()) return;
  const v1::SmokeResult& smoke = result.smoke();
  Table table({"EPOCH", "LIVE", "DRIVER", "FOOTPRINT", "SWAP", "HEAT",
               "PRESSURE", "STEP TIME"});
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

struct SmokeArguments {
  StudyArguments study;
  int32_t rows = 0;
};

ExitCode RunSmoke(const SmokeArguments& arguments, const Console& console) {
  v1::Study study;
  v1::SmokeOptions& options = *study.mutable_smoke();
  options.set_rows(arguments.rows);
  const absl::Status added =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (!added.ok()) return console.BadInput(added);
  return RunStudy(console, arguments.study, study, PrintSmoke);
}

void DeclareSmoke(Command& verb, SmokeArguments& arguments) {
  DeclareStudy(verb, &arguments.study);
  verb.add_option("--rows N", arguments.rows,
                  "Rows from the beginning of the data; by default those of "
                  "four steps")
      ->check(Range(1, kMostRows));
}

// The measurements of a probe, above its findings; nothing for another study.
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
        "Step       %.3g s (%.3g to %.3g s), %s tok/s, over %d steps\n",
        probe.step_seconds().median(), probe.step_seconds().p10(),
        probe.step_seconds().p90(), Count(probe.tokens_per_second()),
        probe.steps());
  }
  out << "Memory     " << base::BytesText(probe.peak_bytes()) << " by the "
      << Printable(probe.peak_from()) << ", estimated "
      << base::BytesText(probe.estimate().total_bytes()) << ", "
      << base::BytesText(probe.memory_limit_bytes()) << " may be held\n";
}

// Times of steps: thousandths of a second matter.
std::string Time(double seconds) {
  return seconds < 1 ? absl::StrFormat("%.3g ms", 1000 * seconds)
                     : absl::StrFormat("%.3g s", seconds);
}

void AddRow(const v1::DeviceTimes& times, Table& table) {
  table.Add(
      {times.device(), Time(times.step_seconds().median()),
       Time(times.step_seconds().p10()), Time(times.step_seconds().p90()),
       Percent(times.data_wait_ratio()), Time(times.loader_seconds().median()),
       times.has_utilization_ratio() ? Percent(times.utilization_ratio())
                                     : "unknown",
       Count(times.tokens_per_second()), Percent(times.padding_ratio()),
       times.has_peak_bytes() ? base::BytesText(times.peak_bytes()) : "unknown",
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

// Prints the times of both devices and the decision; `result` is one of
// `check devices`.
void PrintDeviceComparison(const v1::StudyResult& result,
                           const Console& console) {
  const v1::DeviceComparisonResult& comparison = result.device_comparison();
  Table table({"DEVICE", "STEP TIME", "P10", "P90", "WAITS", "LOADER", "BUSY",
               "TOK/S", "PADDING", "MEMORY", "WHAT"});
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

struct CompareArguments {
  StudyArguments study;
  std::vector<std::string> devices;
  int steps = 0;
  std::optional<int> warmup_steps;
};

ExitCode Compare(const CompareArguments& arguments, const Console& console) {
  v1::Study study;
  v1::DeviceComparisonOptions& options = *study.mutable_device_comparison();
  for (const std::string& device : arguments.devices) {
    options.add_devices(device);
  }
  options.set_steps(arguments.steps);
  if (arguments.warmup_steps) options.set_warmup_steps(*arguments.warmup_steps);
  const absl::Status set =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (!set.ok()) return console.BadInput(set, "Nothing was submitted.");
  return RunStudy(console, arguments.study, study, PrintDeviceComparison);
}

void DeclareCompareDevices(Command& verb, CompareArguments& arguments) {
  DeclareStudy(verb, &arguments.study);
  verb.add_option("--devices A,B", arguments.devices,
                  "Two of cpu, cuda, mps: the baseline, the candidate; "
                  "default: the CPU, and the accelerator")
      ->delimiter(',')
      ->expected(2)
      ->check(IsMember({"cpu", "cuda", "mps"}));
  verb.add_option("--steps N", arguments.steps,
                  "Steps to measure on each; default 20")
      ->check(Range(1, 1000));
  verb.add_option("--warmup-steps N", arguments.warmup_steps,
                  "Steps before these; default 3")
      ->check(Range(0, 1000));
}

// --- Profile -----------------------------------------------------------------

constexpr int kOperatorsShown = 12;       // --json has all
constexpr double kSmallestShare = 0.001;  // of blocks that are shown

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.4g ms", seconds * 1000);
}
std::string Calls(double calls) { return absl::StrFormat("%.4g", calls); }

void PrintSteps(const v1::ProfileResult& profile, std::ostream& out) {
  const v1::ProfileSteps& steps = profile.steps();
  out << profile.device() << ", gradients: " << Printable(profile.gradients())
      << "; " << steps.warm_up() << " steps of warm-up, " << steps.plain()
      << " plain, " << steps.profiled()
      << " under the profiler, which makes a step "
      << Percent(steps.overhead_ratio(), 1, "%") << " longer\n";
  Table table({"A STEP", "TIME", ""});
  table.Add({"the first", Milliseconds(steps.first_seconds()), ""});
  if (steps.has_warm_up_seconds()) {
    table.Add({"of the warm-up", Milliseconds(steps.warm_up_seconds()), ""});
  }
  table.Add({"steady", Milliseconds(steps.steady_seconds()),
             absl::StrCat("waits for data for ",
                          Percent(steps.data_wait_share(), 1, "%"))});
  if (steps.has_first_epoch_seconds() && steps.has_later_epochs_seconds()) {
    table.Add(
        {"steady, first epoch", Milliseconds(steps.first_epoch_seconds()), ""});
    table.Add({"steady, later epochs",
               Milliseconds(steps.later_epochs_seconds()), ""});
  }
  for (const v1::ProfileCapture& capture : profile.captures()) {
    if (capture.name() == "step") continue;
    table.Add({absl::StrCat(capture.name(), " alone"),
               Milliseconds(capture.seconds()),
               absl::StrCat("over ", capture.steps(), " steps")});
  }
  table.Print(out, 0);
}

void PrintBlocks(const v1::ProfileResult& profile, std::ostream& out) {
  Table table(
      {"BLOCK", "PHASE", "CALLS", "A STEP", "SHARE", "IN OPERATORS", "DEVICE"});
  for (const v1::ProfileBlock& block : profile.blocks()) {
    if (block.share() < kSmallestShare) continue;
    table.Add({block.name(), block.phase(), Calls(block.calls()),
               Milliseconds(block.seconds()), Percent(block.share(), 1, "%"),
               Milliseconds(block.operator_seconds()),
               block.has_device_seconds() ? Milliseconds(block.device_seconds())
                                          : "-"});
  }
  table.Print(out, 0);
}

void PrintOperators(const v1::ProfileResult& profile, std::ostream& out) {
  Table table({"OPERATOR", "CALLS", "OWN TIME", "SHARE", "DEVICE"});
  const int shown = std::min(profile.operators_size(), kOperatorsShown);
  for (int i = 0; i < shown; ++i) {
    const v1::ProfileOperator& op = profile.operators(i);
    table.Add(
        {op.name(), Calls(op.calls()), Milliseconds(op.self_seconds()),
         Percent(op.share(), 1, "%"),
         op.has_device_seconds() ? Milliseconds(op.device_seconds()) : "-"});
  }
  table.Print(out, 0);
}

void PrintWaits(const v1::ProfileResult& profile, std::ostream& out) {
  const v1::ProfileGaps& gaps = profile.gaps();
  out << "Between operators: " << Milliseconds(gaps.seconds()) << " a step ("
      << Percent(gaps.share(), 1, "%") << "); the longest "
      << Milliseconds(gaps.longest_seconds()) << ", in '"
      << Printable(gaps.longest_block()) << "'\n";
  if (gaps.has_device_idle_ratio()) {
    out << "The device idles for " << Percent(gaps.device_idle_ratio(), 1, "%")
        << " of the time.\n";
  }
  for (const v1::ProfileWait& wait : profile.waits()) {
    out << "The host waits in " << Printable(wait.name()) << ": "
        << Calls(wait.calls()) << " a step, " << Milliseconds(wait.seconds())
        << (wait.own() ? "; the one that ends a step"
                       : absl::StrCat("; in '", Printable(wait.block()), "'"))
        << '\n';
  }
  for (const auto& [name, count] : profile.cpu_fallback_ops()) {
    out << "On the CPU: " << Printable(name) << ", " << count << " times\n";
  }
}

void PrintMemory(const v1::ProfileMemory& memory, std::ostream& out) {
  std::string text;
  const auto add = [&text](const char* what, int64_t bytes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", what, " ",
                    base::BytesText(bytes));
  };
  if (memory.has_peak_allocated_bytes()) {
    add("tensors", memory.peak_allocated_bytes());
  }
  if (memory.has_peak_driver_bytes()) {
    add("driver", memory.peak_driver_bytes());
  }
  if (memory.has_recommended_max_bytes()) {
    add("of at most", memory.recommended_max_bytes());
  }
  if (memory.has_peak_footprint_bytes()) {
    add("process", memory.peak_footprint_bytes());
  }
  if (!text.empty()) out << "Memory at its peak: " << text << '\n';
}

}  // namespace

void PrintProfile(const v1::StudyResult& result, const Console& console) {
  const v1::ProfileResult& profile = result.profile();
  std::ostream& out = console.out;
  PrintSteps(profile, out);
  out << '\n';
  PrintBlocks(profile, out);
  out << '\n';
  PrintOperators(profile, out);
  out << '\n';
  PrintWaits(profile, out);
  PrintMemory(profile.memory(), out);
  for (const std::string& text : profile.unknown()) {
    out << "Unknown: " << Printable(text) << '\n';
  }
  if (profile.has_trace()) {
    out << "Trace: " << Printable(profile.trace().file()) << ", "
        << base::BytesText(profile.trace().size_bytes()) << ", the last "
        << profile.trace().steps() << " steps, for Perfetto: `mpsctl download "
        << result.job_id() << " --output DIR`\n";
  }
  out << '\n';
}

namespace {

constexpr char kTraceFile[] = "trace.json.gz";

struct ProfileArguments {
  StudyArguments study;
  std::optional<int32_t> steps, warm_up;
  std::string trace;  // FILE; empty: the trace stays with the job
};

absl::StatusOr<v1::Study> StudyOf(const ProfileArguments& arguments) {
  v1::Study study;
  v1::ProfileOptions& options = *study.mutable_profile();
  if (arguments.steps) options.set_steps(*arguments.steps);
  if (arguments.warm_up) options.set_warm_up_steps(*arguments.warm_up);
  RETURN_IF_ERROR(
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds()));
  return study;
}

absl::Status CheckTrace(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  if (!absl::EndsWith(path, ".json.gz")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--trace: expected a name that ends in .json.gz, got ",
                     Printable(path)));
  }
  std::error_code error;
  if (!fs::exists(path, error)) return CheckOutputFile("--trace", path);
  return absl::AlreadyExistsError(
      absl::StrCat("--trace: ", Printable(path), " exists"));
}

ExitCode Profile(const ProfileArguments& arguments, const Console& console) {
  if (absl::Status s = CheckTrace(arguments.trace); !s.ok()) {
    return console.BadInput(s, "Nothing was submitted.");
  }
  const absl::StatusOr<v1::Study> study = StudyOf(arguments);
  if (!study.ok()) {
    return console.BadInput(study.status(), "Nothing was submitted.");
  }
  v1::StudyResult result;
  const ExitCode verdict =
      RunStudy(console, arguments.study, *study, PrintProfile, &result);
  if (arguments.trace.empty() || !result.has_profile()) return verdict;
  // stdout is the result's, for scripts.
  const Console quiet{console.err, console.err, console.terminal,
                      console.daemon, false};
  const ExitCode fetched =
      FetchOutputFile(quiet, result.job_id(), kTraceFile, arguments.trace);
  return fetched == ExitCode::kOk ? verdict : fetched;
}

void DeclareProfile(Command& verb, ProfileArguments& arguments) {
  DeclareStudy(verb, &arguments.study);
  verb.add_option("--steps N", arguments.steps,
                  "Steps under the profiler; default: profile.steps, 50")
      ->check(Range(1, 1000));
  verb.add_option("--warmup-steps N", arguments.warm_up,
                  "Steps before them; default: 10")
      ->check(Range(1, 1000));
  verb.add_option("--trace FILE", arguments.trace,
                  "Save the last steps' trace there, NAME.json.gz, for\n"
                  "Perfetto or chrome://tracing")
      ->check(Given);
}

// --- Plan --------------------------------------------------------------------

using base::BytesText;

constexpr int kBarColumns = 30;
constexpr int kBars = 12;  // of the histogram
constexpr double kShown = 0.0005;

std::string SourceText(v1::PlanSource source) {
  switch (source) {
    case v1::PLAN_SOURCE_ESTIMATE:
      return "estimated";
    case v1::PLAN_SOURCE_ROOFLINE:
      return "by the chip's roofline";
    case v1::PLAN_SOURCE_HISTORY:
      return "by past runs of this shape";
    case v1::PLAN_SOURCE_PROBE:
      return "measured by a probe";
    default:
      return "unknown";
  }
}

// "  name          text": the lines of a plan, as those of `show`.
void Line(std::ostream& out, const std::string& name, const std::string& text) {
  out << absl::StreamFormat("  %-14s%s\n", name, Printable(text));
}

std::string RowsText(const v1::PlanRows& rows) {
  std::string text = absl::StrCat(Count(rows.rows()), " rows, ",
                                  Count(rows.tokens()), " tokens");
  if (rows.label_tokens() > 0) {
    absl::StrAppend(&text, ", ", Count(rows.label_tokens()), " of them labels");
  }
  if (rows.cut_rows() > 0) {
    absl::StrAppend(&text, "; ", Count(rows.cut_rows()), " rows cut (",
                    Percent(rows.cut_share()), ")");
  }
  if (rows.dropped_rows() > 0) {
    absl::StrAppend(&text, "; ", Count(rows.dropped_rows()), " dropped (",
                    Percent(rows.dropped_share()), ")");
  }
  return text;
}

// Merges neighbouring bins, so that at most kBars are left.
std::vector<v1::PlanLengths> Bars(const v1::PlanRows& rows) {
  std::vector<v1::PlanLengths> bars;
  const int each = (rows.lengths_size() + kBars - 1) / kBars;
  for (int i = 0; i < rows.lengths_size(); ++i) {
    if (i % each == 0) {
      bars.push_back(rows.lengths(i));
      continue;
    }
    bars.back().set_to(rows.lengths(i).to());
    bars.back().set_rows(bars.back().rows() + rows.lengths(i).rows());
  }
  return bars;
}

void PrintHistogram(const v1::PlanRows& rows, const Console& console) {
  const std::vector<v1::PlanLengths> bars = Bars(rows);
  if (bars.size() < 2) return;
  int64_t most = 1;
  for (const v1::PlanLengths& bar : bars) most = std::max(most, bar.rows());
  const char* block = console.terminal.utf8 ? "█" : "#";
  for (const v1::PlanLengths& bar : bars) {
    const auto wide = static_cast<int>(
        std::ceil(static_cast<double>(kBarColumns) *
                  static_cast<double>(bar.rows()) / static_cast<double>(most)));
    std::string drawn;
    for (int i = 0; i < wide; ++i) drawn += block;
    console.out << absl::StreamFormat("%7d%s%-7d %s %s\n", bar.from(),
                                      console.terminal.utf8 ? "–" : "-",
                                      bar.to(), drawn, Count(bar.rows()));
  }
}

void PrintData(const v1::Plan& plan, const Console& console) {
  if (!plan.has_data()) return;
  const v1::PlanRows& train = plan.data().train();
  console.out << "Data\n";
  Line(console.out, "train", RowsText(train));
  if (plan.data().has_eval()) {
    Line(console.out, "eval", RowsText(plan.data().eval()));
  }
  if (plan.data().has_predict()) {
    Line(console.out, "predict", RowsText(plan.data().predict()));
  }
  Line(console.out, "row lengths",
       absl::StrFormat("%d to %d tokens, median %d, 95 %% have at most %d",
                       train.shortest(), train.longest(), train.median(),
                       train.p95()));
  PrintHistogram(train, console);
}

void PrintSamplings(const v1::Plan& plan, std::ostream& out) {
  if (plan.data().samplings().empty()) return;
  out << "Batches\n";
  Table table(
      {"  ORDER OF ROWS", "PADDING", "STEPS/EPOCH", "EPOCH", "ASK FOR"});
  for (const v1::PlanSampling& sampling : plan.data().samplings()) {
    table.Add({absl::StrCat(sampling.chosen() ? "* " : "  ", sampling.name()),
               Percent(sampling.padding_share()),
               Count(static_cast<double>(sampling.steps_per_epoch())),
               sampling.has_seconds_per_epoch()
                   ? Seconds(sampling.seconds_per_epoch())
                   : "-",
               sampling.chosen() ? "" : sampling.patch()});
  }
  table.Print(out, 0);
}

void PrintSteps(const v1::Plan& plan, std::ostream& out) {
  if (!plan.has_steps()) return;
  const v1::PlanSteps& steps = plan.steps();
  out << "Run\n";
  Line(out, "steps",
       absl::StrFormat(
           "%s in %.4g epochs of %s, %d rows a step (%d x %d), %s tokens",
           Count(static_cast<double>(steps.total_steps())), steps.epochs(),
           Count(static_cast<double>(steps.steps_per_epoch())),
           steps.batch_rows(), steps.micro_batch_rows(),
           steps.gradient_accumulation_steps(),
           Count(std::round(steps.tokens_per_step()))));
  Line(out, "besides",
       absl::StrCat(CountOf(steps.evaluations(), "evaluation"), ", ",
                    CountOf(steps.checkpoints(), "checkpoint"), ", ",
                    CountOf(steps.warmup_steps(), "step"), " of warm-up"));
}

void PrintModel(const v1::Plan& plan, std::ostream& out) {
  if (!plan.has_model()) return;
  const v1::PlanModel& model = plan.model();
  Line(out, "model",
       absl::StrCat(model.model_type(), ", ",
                    Count(static_cast<double>(model.parameters())),
                    " parameters in ", model.dtype(), ", ",
                    Count(static_cast<double>(model.trainable_parameters())),
                    " of them train"));
  if (!model.gradients().empty()) {
    Line(out, "gradients",
         model.gradients_reason().empty()
             ? model.gradients()
             : absl::StrCat(model.gradients(), ": ", model.gradients_reason()));
  }
  Line(out, "device",
       absl::StrCat(model.device().empty() ? "unknown" : model.device(),
                    model.chip().empty() ? "" : ", ", model.chip()));
}

void PrintMemory(const v1::Plan& plan, std::ostream& out) {
  if (!plan.has_memory()) return;
  const v1::PlanMemory& memory = plan.memory();
  out << "Memory\n";
  Line(out, "peak",
       absl::StrCat(BytesText(memory.peak_bytes()), " of ",
                    memory.has_limit_bytes() ? BytesText(memory.limit_bytes())
                                             : "an unknown limit",
                    ", ", SourceText(memory.source())));
  if (memory.source() == v1::PLAN_SOURCE_PROBE) {
    Line(out, "estimate", BytesText(memory.estimated_bytes()));
  }
  const std::pair<const char*, int64_t> parts[] = {
      {"frozen weights", memory.base_weights_bytes()},
      {"trained weights", memory.trainable_bytes()},
      {"activations", memory.activations_bytes()},
      {"logits", memory.logits_bytes()},
      {"backward", memory.backward_bytes()},
      {"evaluation", memory.evaluation_bytes()},
      {"inputs", memory.inputs_bytes()},
      {"heap", memory.heap_bytes()}};
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts) {
    if (bytes > 0) texts.push_back(absl::StrCat(name, " ", BytesText(bytes)));
  }
  if (!texts.empty()) Line(out, "parts", absl::StrJoin(texts, ", "));
  if (memory.estimated_bytes_at_max_length() > memory.estimated_bytes()) {
    Line(out, "at max_length",
         absl::StrCat(BytesText(memory.estimated_bytes_at_max_length()),
                      ", where the longest row has ", memory.longest_row(),
                      " tokens"));
  }
}

void PrintTime(const v1::Plan& plan, std::ostream& out) {
  if (!plan.has_time()) return;
  const v1::PlanTime& time = plan.time();
  out << "Time\n";
  std::string source = SourceText(time.source());
  if (time.runs() > 0) absl::StrAppend(&source, " (", time.runs(), " runs)");
  // The rates are those of the roofline.
  const std::string rates =
      time.rates().empty() ? "" : absl::StrCat(": ", time.rates());
  if (time.source() == v1::PLAN_SOURCE_ROOFLINE) source += rates;
  if (!time.has_seconds_per_step()) {
    Line(out, "a step", source);
    return;
  }
  Line(out, "a step",
       absl::StrCat(
           absl::StrFormat("%.3g s", time.seconds_per_step()),
           time.has_tokens_per_second()
               ? absl::StrCat(", ", Count(std::round(time.tokens_per_second())),
                              " tok/s")
               : "",
           ", ", source));
  if (time.has_roofline_seconds_per_step() &&
      time.source() != v1::PLAN_SOURCE_ROOFLINE) {
    Line(out, "roofline",
         absl::StrCat(
             absl::StrFormat("%.3g s a step", time.roofline_seconds_per_step()),
             rates));
  }
  if (!time.has_total_seconds()) return;
  std::string total = Seconds(time.total_seconds());
  if (time.has_evaluation_seconds() &&
      time.evaluation_seconds() > kShown * time.total_seconds()) {
    absl::StrAppend(&total, ", ", Seconds(time.evaluation_seconds()),
                    " of it evaluations");
  }
  Line(out, "in total", total);
}

void PrintDisk(const v1::Plan& plan, std::ostream& out) {
  if (!plan.has_disk()) return;
  const v1::PlanDisk& disk = plan.disk();
  out << "Disk\n";
  std::string text = absl::StrCat(
      BytesText(disk.total_bytes()),
      " at its most: ", CountOf(disk.checkpoints_kept(), "checkpoint"), " of ",
      BytesText(disk.checkpoint_bytes()), ", the result ",
      BytesText(disk.result_bytes()));
  if (disk.has_free_bytes()) {
    absl::StrAppend(&text, "; ", BytesText(disk.free_bytes()), " free");
  }
  Line(out, "files", text);
}

void PrintQueue(const v1::Plan& plan, const Console& console) {
  if (!plan.has_queue()) return;
  const v1::PlanQueue& queue = plan.queue();
  std::ostream& out = console.out;
  out << "Queue\n";
  Line(out, "ahead", CountOf(queue.jobs_ahead(), "job"));
  if (!queue.why().empty()) Line(out, "held", queue.why());
  if (queue.has_wait_seconds()) {
    Line(out, "wait", Seconds(queue.wait_seconds()));
  }
  if (queue.has_finish_seconds()) {
    const absl::Time end =
        console.terminal.clock->Now() + absl::Seconds(queue.finish_seconds());
    Line(out, "would end",
         absl::StrCat(DateTime(end, console.terminal.zone), ", in ",
                      Seconds(queue.finish_seconds())));
  }
  for (const std::string& what : queue.unknown()) {
    Line(out, "unknown", what);
  }
}

void PrintAlternatives(const v1::Plan& plan, std::ostream& out) {
  if (plan.verdict() != v1::VERDICT_FAIL) return;
  if (plan.alternatives().empty()) {
    out << "No similar plan fits.\n";
    return;
  }
  out << "What would fit, the closest first\n";
  Table table({"  MEMORY", "STEP TIME", "TOTAL", "CHANGE"});
  for (const v1::PlanAlternative& other : plan.alternatives()) {
    std::string change = absl::StrJoin(other.changes(), ", ");
    if (!other.note().empty())
      absl::StrAppend(&change, " (", other.note(), ")");
    table.Add({absl::StrCat("  ", BytesText(other.memory_bytes())),
               other.has_seconds_per_step()
                   ? absl::StrFormat("%.3g s", other.seconds_per_step())
                   : "-",
               other.has_total_seconds() ? Seconds(other.total_seconds()) : "-",
               change});
  }
  table.Print(out, 0);
}

}  // namespace

void PrintPlan(const v1::Plan& plan, const Console& console) {
  std::ostream& out = console.out;
  PrintData(plan, console);
  PrintSamplings(plan, out);
  PrintSteps(plan, out);
  PrintModel(plan, out);
  PrintMemory(plan, out);
  PrintTime(plan, out);
  PrintDisk(plan, out);
  PrintQueue(plan, console);
  PrintFindings(plan.findings(), out);
  PrintAlternatives(plan, out);
  switch (plan.verdict()) {
    case v1::VERDICT_FAIL:
      out << "Verdict: does not fit\n";
      break;
    case v1::VERDICT_UNSPECIFIED:
      out << "Verdict: unknown\n";
      break;
    default:
      out << "Verdict: fits\n";
  }
}

namespace {

constexpr absl::Duration kPlanPatience = absl::Minutes(10);
constexpr absl::Duration kPause = absl::Seconds(2);

struct PlanOptions : StudyArguments {
  std::string probe_id;
  bool probe = false;
};

// One call of RunbookService.Plan; its stages are printed to console.err.
class Planning {
 public:
  explicit Planning(const Console& console)
      : course_{console.err, console.err, console.terminal, console.daemon,
                false},
        line_(course_) {}

  grpc::Status Ask(const v1::PlanRequest& request, v1::Plan* plan) {
    bool planned = false;
    const grpc::Status status =
        course_.daemon.Read(&RunbookStub::Plan, request, &interrupted_,
                            [&](const v1::PlanEvent& event) {
                              if (event.has_plan()) {
                                *plan = event.plan();
                                planned = true;
                              } else {
                                line_.Draw(0, 1, Printable(event.stage()));
                              }
                              return true;
                            });
    line_.Clear();
    if (!status.ok() || planned) return status;
    return grpc::Status(grpc::StatusCode::INTERNAL,
                        "mpsd ended the stream without a plan");
  }
  // The daemon makes its maximum of plans. An unreachable daemon is
  // UNAVAILABLE, too.
  static bool IsBusy(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
           absl::StrContains(status.error_message(), "under way");
  }
  bool interrupted() const { return interrupted_; }
  void ShowWait() { line_.Draw(0, 1, "waiting for other plans"); }

 private:
  const Console course_;
  ProgressLine line_;
  bool interrupted_ = false;
};

// Queues a probe of the job and follows it to its end.
ExitCode Probe(const Console& console, const PlanOptions& options,
               v1::SubmitRequest request,
               const std::function<grpc::Status()>& upload, std::string* id) {
  v1::ProbeOptions& probe = *request.mutable_study()->mutable_probe();
  absl::Status added =
      AddThresholds(options.thresholds, probe.mutable_thresholds());
  if (!added.ok()) return console.BadInput(added);
  // stdout is the plan's, for scripts; the probe's progress is for the user.
  const Console course{console.err, console.err, console.terminal,
                       console.daemon, false};
  return SendJob(course, std::move(request), upload, /*detach=*/false, id);
}

// Has the daemon plan the job of `request`, whose files it has: fills *plan and
// returns kOk if the job fits, kVerdictFail if it does not. Otherwise prints
// why there is no plan, as Console::Fail; kBadInput for a threshold; kDetached
// after Ctrl-C, on which the daemon abandons the plan. A daemon that is busy
// with other plans is called again for ten minutes.
ExitCode MakePlan(const Console& console, v1::SubmitRequest request,
                  const ThresholdArguments& thresholds, v1::Plan* plan,
                  const std::string& probe_id) {
  v1::PlanRequest asked;
  *asked.mutable_submission() = std::move(request);
  asked.set_probe_id(probe_id);
  absl::Status added = AddThresholds(thresholds, asked.mutable_thresholds());
  if (!added.ok()) return console.BadInput(added);
  Planning planning(console);
  grpc::Status status = planning.Ask(asked, plan);
  for (absl::Duration waited; Planning::IsBusy(status) &&
                              !planning.interrupted() && waited < kPlanPatience;
       waited += kPause) {
    planning.ShowWait();
    console.terminal.sleep(kPause);
    status = planning.Ask(asked, plan);
  }
  if (planning.interrupted() && !status.ok()) {
    console.err << "mpsctl: interrupted; mpsd abandons the plan.\n";
    return ExitCode::kDetached;
  }
  if (!status.ok()) return console.Fail(status);
  return plan->verdict() == v1::VERDICT_FAIL ? ExitCode::kVerdictFail
                                             : ExitCode::kOk;
}

ExitCode Plan(const PlanOptions& options, const Console& console) {
  ExitCode code = ExitCode::kOk;
  std::string probe_id;
  if (!options.probe_id.empty()) {
    const auto id = ResolveJobId(console, options.probe_id, &code);
    if (!id) return code;
    probe_id = *id;
  }
  PreparedJob job;
  v1::SubmitRequest request;
  code =
      PrepareToSend(console, options, "Nothing was planned.", &job, &request);
  if (code == ExitCode::kOk && options.probe) {
    code = Probe(
        console, options, request, [&] { return Upload(console, job.files); },
        &probe_id);
  }
  if (code != ExitCode::kOk) return code;
  v1::Plan plan;
  code = MakePlan(console, std::move(request), options.thresholds, &plan,
                  probe_id);
  if (code != ExitCode::kOk && code != ForVerdict(plan.verdict())) return code;
  if (console.json) {
    console.PrintJson(plan);
  } else {
    PrintPlan(plan, console);
  }
  console.out << std::flush;
  return code;
}

void DeclarePlan(Command& verb, PlanOptions& options) {
  DeclareJobFile(verb, options.job);
  Option* probe =
      verb.add_flag("--probe", options.probe,
                    "Measure memory and time first: queue a few steps at the\n"
                    "longest rows, and wait for them");
  verb.add_option("--probe-of ID", options.probe_id,
                  "Use what this probe of the same job measured")
      ->excludes(probe);
  verb.add_option("--priority N", options.priority,
                  "The job's, which decides how long it would wait")
      ->capture_default_str();
  DeclareThresholds(verb, &options.thresholds);
}

}  // namespace

ExitCode PlanJob(const JobFile& job, const Console& console) {
  PlanOptions options;
  options.job = job;
  return Plan(options, console);
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
    case v1::StudyResult::kGenerate:
      return PrintAnswers(result, console);
    default:
      return;
  }
}

namespace {

using Json = nlohmann::ordered_json;
using Combination = std::vector<std::string>;

absl::Status Invalid(const std::string& text, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", base::Quotable(text), "': ", what));
}

std::string Dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// --- Values as people write them ---------------------------------------------

// The comma-separated parts; commas in strings, lists and objects do not count.
std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\' && i + 1 < text.size()) {
        parts.back() += c;
        parts.back() += text[++i];
        continue;
      }
      in_string = c != '"';
    } else if (c == '"' && (depth > 0 || parts.back().empty())) {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  return parts;
}

// The text between `name`( and ), if the text is such a range.
std::optional<std::string> Within(const std::string& name,
                                  const std::string& text) {
  if (!text.starts_with(name + "(") || !text.ends_with(")")) {
    return std::nullopt;
  }
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

bool ReadNumber(const std::string& text, double* number) {
  return absl::SimpleAtod(absl::StripAsciiWhitespace(text), number);
}
bool ReadNumber(const std::string& text, int64_t* number) {
  return absl::SimpleAtoi(absl::StripAsciiWhitespace(text), number);
}

// nullopt if the text is not two numbers, the lower first.
template <typename Range>
std::optional<Range> ReadRange(const std::string& text) {
  const std::vector<std::string> ends = Split(text);
  Range range;
  if (ends.size() != 2 || !ReadNumber(ends[0], &range.low) ||
      !ReadNumber(ends[1], &range.high)) {
    return std::nullopt;
  }
  if constexpr (std::is_same_v<Range, Integers>) {
    // Beyond this a double, and so a JSON reader, does not distinguish them.
    constexpr int64_t kLargest = int64_t{1} << 53;
    if (range.low > range.high || range.low < -kLargest ||
        range.high > kLargest) {
      return std::nullopt;
    }
  } else if (!(range.low < range.high) ||
             !std::isfinite(range.high - range.low)) {
    return std::nullopt;
  }
  return range;
}

absl::StatusOr<Choices> ReadChoices(const std::string& text,
                                    const std::string& values) {
  Choices choices;
  for (const std::string& value : Split(values)) {
    if (value.empty()) {
      return Invalid(text, "a value is empty; the empty string is \"\"");
    }
    // 1e-4 and 0.0001 are the same value.
    std::string json = Dump(spec::FieldValue(value));
    if (std::count(choices.begin(), choices.end(), json) > 0) {
      return Invalid(text, absl::StrCat("has the value ", base::Quotable(value),
                                        " twice"));
    }
    choices.push_back(std::move(json));
    if (choices.size() > kSweepJobs) {
      return Invalid(text,
                     absl::StrCat("has more than ", kSweepJobs, " values"));
    }
  }
  return choices;
}

// --- Combinations ------------------------------------------------------------

// Whether one path names the other's field, or an object around it.
bool Overlap(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

absl::Status CheckFields(absl::Span<const SweepField> fields) {
  if (fields.empty()) {
    return absl::InvalidArgumentError(
        "name at least one field and its values, as "
        "training.learning_rate=1e-4,3e-4");
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& field = fields[i].field;
    if (Overlap(field, "name")) {
      return Invalid(field, "cannot vary: each job is named after its values");
    }
    if (Overlap(field, "dataset")) {
      return Invalid(field,
                     "cannot vary: the jobs share their data; make a sweep "
                     "for each data set");
    }
    for (size_t j = 0; j < i; ++j) {
      if (!Overlap(field, fields[j].field)) continue;
      return Invalid(field,
                     field == fields[j].field
                         ? "is named twice: name its values together"
                         : absl::StrCat("names a part of what ",
                                        base::Quotable(fields[j].field),
                                        " names, or the other way round"));
    }
  }
  return absl::OkStatus();
}

// As people would write it: 0.0003162, not 0.00031622776601683794.
std::string Rounded(double value, double low, double high) {
  std::string text = absl::StrFormat("%.4g", value);
  double rounded = 0;
  if (absl::SimpleAtod(text, &rounded) && rounded >= low && rounded <= high) {
    return text;
  }
  return Dump(std::clamp(value, low, high));
}

std::string DrawFrom(const Choices& choices, RandomDraw& draw) {
  return choices[draw.Below(choices.size())];
}
std::string DrawFrom(const Uniform& range, RandomDraw& draw) {
  return Rounded(range.low + draw.Share() * (range.high - range.low), range.low,
                 range.high);
}
std::string DrawFrom(const LogUniform& range, RandomDraw& draw) {
  const double low = std::log(range.low), high = std::log(range.high);
  return Rounded(std::exp(low + draw.Share() * (high - low)), range.low,
                 range.high);
}
std::string DrawFrom(const Integers& range, RandomDraw& draw) {
  const auto count = static_cast<uint64_t>(range.high - range.low) + 1;
  return absl::StrCat(range.low + static_cast<int64_t>(draw.Below(count)));
}

// --- Jobs --------------------------------------------------------------------

std::string LastPart(const std::string& field) {
  const size_t point = field.rfind('.');
  return point == std::string::npos ? field : field.substr(point + 1);
}

// The fields in a job's name: their last parts, if these differ.
std::vector<std::string> ShortNames(absl::Span<const SweepField> fields) {
  std::map<std::string, int> uses;
  for (const SweepField& one : fields) ++uses[LastPart(one.field)];
  std::vector<std::string> names;
  for (const SweepField& one : fields) {
    const std::string last = LastPart(one.field);
    names.push_back(uses[last] == 1 ? last : one.field);
  }
  return names;
}

}  // namespace

absl::StatusOr<SweepField> ParseSweepField(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Invalid(text,
                   "expected FIELD=VALUES, as training.learning_rate=1e-4,3e-4 "
                   "(the job.json comes before --grid and --random)");
  }
  SweepField read{text.substr(0, equals), {}};
  const std::string values = text.substr(equals + 1);
  if (const auto ends = Within("uniform", values)) {
    const auto range = ReadRange<Uniform>(*ends);
    if (!range) {
      return Invalid(
          text, "expected two numbers, the lower first, as uniform(0,0.1)");
    }
    read.values = *range;
  } else if (const auto ends = Within("log", values)) {
    const auto range = ReadRange<LogUniform>(*ends);
    if (!range || range->low <= 0) {
      return Invalid(text,
                     "expected two numbers above 0, the lower first, as "
                     "log(1e-5,1e-3)");
    }
    read.values = *range;
  } else if (const auto ends = Within("int", values)) {
    const auto range = ReadRange<Integers>(*ends);
    if (!range) {
      return Invalid(text,
                     "expected two integers, the lower first, as int(1,100)");
    }
    read.values = *range;
  } else {
    ASSIGN_OR_RETURN(Choices choices, ReadChoices(text, values));
    read.values = std::move(choices);
  }
  return read;
}

absl::StatusOr<std::vector<Combination>> ExpandGrid(
    absl::Span<const SweepField> fields) {
  RETURN_IF_ERROR(CheckFields(fields));
  std::vector<Combination> all(1);
  for (const SweepField& one : fields) {
    const auto* choices = std::get_if<Choices>(&one.values);
    if (choices == nullptr) {
      return Invalid(one.field,
                     "a grid has no ranges: name the values, or draw some with "
                     "--random");
    }
    std::vector<Combination> wider;
    for (const Combination& before : all) {
      for (const std::string& value : *choices) {
        wider.push_back(before);
        wider.back().push_back(value);
      }
    }
    all = std::move(wider);
    if (all.size() > kSweepJobs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the grid has more than ", kSweepJobs,
          " combinations: name fewer values, or draw some with --random"));
    }
  }
  return all;
}

absl::StatusOr<std::vector<Combination>> DrawValues(
    absl::Span<const SweepField> fields, size_t count, int64_t seed) {
  RETURN_IF_ERROR(CheckFields(fields));
  if (count < 1 || count > kSweepJobs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--random: draws 1 to ", kSweepJobs, ", not ", count));
  }
  RandomDraw draw(seed);
  std::vector<Combination> all;
  std::set<Combination> seen;
  // Enough to find the last of kSweepJobs combinations: that takes about as
  // many draws as there are, times the logarithm of their number.
  const size_t tries = 10'000 + 200 * count;
  for (size_t i = 0; i < tries && all.size() < count; ++i) {
    Combination one;
    for (const SweepField& field : fields) {
      one.push_back(
          std::visit([&](const auto& values) { return DrawFrom(values, draw); },
                     field.values));
    }
    if (seen.insert(one).second) all.push_back(std::move(one));
  }
  if (all.size() == count) return all;
  return absl::InvalidArgumentError(absl::StrCat(
      "--random: there are no ", count, " different combinations, only ",
      all.size(), ": name more values, or make a grid of them"));
}

absl::StatusOr<std::vector<SweepJob>> MakeSweepJobs(
    const std::string& spec_json, const std::string& name,
    absl::Span<const SweepField> fields,
    absl::Span<const Combination> combinations) {
  const Json base = base::ParseTree<Json>(spec_json);
  const std::string base_name = base.value("name", "");
  const std::vector<std::string> names = ShortNames(fields);
  std::vector<SweepJob> jobs;
  for (const Combination& combination : combinations) {
    SweepJob& job = jobs.emplace_back();
    job.labels[kSweepLabel] = name;
    Json spec = base;
    absl::Status status;
    for (size_t i = 0; i < fields.size() && status.ok(); ++i) {
      const std::string& field = fields[i].field;
      const Json value = base::ParseTree<Json>(combination[i]);
      status = spec::SetField(spec, field, value);
      if (!status.ok()) {
        status = Invalid(field, std::string(status.message()));
      }
      const std::string shown = base::Printable(
          value.is_string() ? value.get<std::string>() : combination[i]);
      absl::StrAppend(&job.values, i == 0 ? "" : " ", names[i], "=", shown);
      job.labels[field] = base::Shortened(shown, limits::kJobLabelValueBytes);
    }
    spec["name"] = base::Shortened(
        base_name.empty() ? job.values
                          : absl::StrCat(base_name, " ", job.values),
        limits::kNameBytes);
    job.spec_json = Dump(spec, 2);
    if (status.ok()) {
      status = spec::ParseTrainSpec(job.spec_json, "").status();
    }
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("job ", jobs.size(), " (",
                       base::Shortened(job.values, limits::kQuotedBytes),
                       "): ", status.message()));
    }
  }
  return jobs;
}

namespace {

struct BatchSweepArguments {
  StudyArguments study;
  int32_t first_batch = 0, max_batch = 0, steps = 0, warmup_steps = 0;
  double memory_limit_gib = 0;
  std::string output;  // a file to write; "": none
};

constexpr int kMostBatch = 65536;
constexpr int kMostProfiledSteps = 1000;

// A text for one cell: quoted, so that no spreadsheet splits it.
std::string Quoted(const std::string& text) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(Printable(text), {{"\"", "\"\""}}), "\"");
}

// Specific to a batch: "knee, largest", or why it does not fit.
std::string BatchNote(const v1::BatchSweepResult& sweep,
                      const v1::BatchPoint& point) {
  if (!point.fits()) return Printable(point.why_not());
  std::string note;
  const auto add = [&](bool is, const char* word) {
    if (is) absl::StrAppend(&note, note.empty() ? "" : ", ", word);
  };
  add(point.batch() == sweep.knee_batch(), "knee");
  add(point.batch() == sweep.largest_batch(), "largest");
  add(point.batch() == sweep.job_batch(), "the job's");
  return note;
}

// The memory that it used, with "~" before an estimate.
std::string BatchMemory(const v1::BatchPoint& point) {
  if (point.peak_bytes() == 0) return "-";
  return absl::StrCat(point.predicted() ? "~" : "",
                      base::BytesText(point.peak_bytes()));
}

void DeclareBatchSweep(Command& verb, BatchSweepArguments& arguments) {
  DeclareStudy(verb, &arguments.study);
  const auto number = [&](const char* name, int32_t& value, int most,
                          const char* what) {
    verb.add_option(name, value, what)->type_name("N")->check(Range(1, most));
  };
  number("--first-batch", arguments.first_batch, kMostBatch,
         "The smallest batch; 1 by default");
  number("--max-batch", arguments.max_batch, kMostBatch,
         "The largest batch; by default as many rows as the data have");
  number("--steps", arguments.steps, kMostProfiledSteps,
         "Steps measured for each batch; 6 by default");
  number("--warmup-steps", arguments.warmup_steps, kMostProfiledSteps,
         "Steps before those; 2 by default");
  verb.add_option("--memory-limit GIB", arguments.memory_limit_gib,
                  "What a batch may hold; by default a share of what the "
                  "device recommends")
      ->check(Range(1e-3, 1e6));
  verb.add_option("-o,--output FILE", arguments.output,
                  "Write the results as comma-separated values")
      ->check(Given);
}

}  // namespace

std::string BatchSweepCsv(const v1::BatchSweepResult& sweep) {
  std::string csv =
      "batch,fits,peak_bytes,step_seconds,step_seconds_p10,step_seconds_p90,"
      "tokens_per_second,rows_per_second,padding_share,knee,why_not\n";
  for (const v1::BatchPoint& point : sweep.points()) {
    absl::StrAppend(&csv, point.batch(), ",", point.fits() ? "true" : "false",
                    ",", point.peak_bytes(), ",");
    if (point.has_step_seconds()) {
      absl::StrAppendFormat(
          &csv, "%.6g,%.6g,%.6g,%.6g,%.6g,", point.step_seconds().median(),
          point.step_seconds().p10(), point.step_seconds().p90(),
          point.tokens_per_second(), point.rows_per_second());
    } else {
      csv += ",,,,,";
    }
    if (point.has_padding_share()) {
      absl::StrAppendFormat(&csv, "%.6g", point.padding_share());
    }
    absl::StrAppend(
        &csv, ",", point.batch() == sweep.knee_batch() ? "true" : "false", ",",
        point.why_not().empty() ? "" : Quoted(point.why_not()), "\n");
  }
  return csv;
}

void PrintBatchSweep(const v1::StudyResult& result, const Console& console) {
  if (!result.has_batch_sweep()) return;
  const v1::BatchSweepResult& sweep = result.batch_sweep();
  Table table(
      {"BATCH", "TOK/S", "ROWS/S", "STEP TIME", "PADDING", "MEMORY", "NOTE"});
  for (const v1::BatchPoint& point : sweep.points()) {
    const bool timed = point.has_step_seconds();
    table.Add(
        {absl::StrCat(point.batch()),
         timed ? Count(point.tokens_per_second()) : "-",
         timed ? absl::StrFormat("%.4g", point.rows_per_second()) : "-",
         timed ? absl::StrFormat("%.3g s", point.step_seconds().median()) : "-",
         point.has_padding_share() ? Percent(point.padding_share(), 0) : "-",
         BatchMemory(point), BatchNote(sweep, point)});
  }
  table.Print(console.out, 0);
  console.out << "Memory by the " << Printable(sweep.peak_from())
              << " on the longest rows, times on rows as trained; "
              << base::BytesText(sweep.memory_limit_bytes())
              << " may be held\n";
}

namespace {

ExitCode RunBatchSweep(const BatchSweepArguments& arguments,
                       const Console& console) {
  const StudyArguments& study = arguments.study;
  absl::Status s = CheckOutputFile("--output", arguments.output);
  if (!s.ok()) return console.BadInput(s, "Nothing was submitted.");
  v1::Study request;
  v1::BatchSweepOptions& options = *request.mutable_batch_sweep();
  options.set_first_batch(arguments.first_batch);
  options.set_max_batch(arguments.max_batch);
  options.set_steps(arguments.steps);
  options.set_warmup_steps(arguments.warmup_steps);
  options.set_memory_limit_bytes(arguments.memory_limit_gib * (1 << 30));
  s = AddThresholds(study.thresholds, options.mutable_thresholds());
  if (!s.ok()) return console.BadInput(s);
  v1::StudyResult result;
  const ExitCode verdict =
      RunStudy(console, study, request, PrintBatchSweep, &result);
  if (arguments.output.empty() || !result.has_batch_sweep()) return verdict;
  s = base::WriteFileAtomic(arguments.output,
                            BatchSweepCsv(result.batch_sweep()));
  if (s.ok()) return verdict;
  return console.BadInput(
      s, absl::StrCat("`mpsctl show ", result.job_id(), "` shows the sweep."));
}

struct GridArguments {
  QueueOptions job;
  std::vector<std::string> grid;
  std::vector<std::string> random;  // the number, and then the fields
  int64_t seed = 0;
  std::string name, idempotency_key;
  bool hold = false;
};

void DeclareGrid(Command& verb, GridArguments& arguments) {
  DeclareQueueing(verb, arguments.job);
  Option* grid =
      verb.add_option("--grid FIELD=VALUES…", arguments.grid,
                      "Queue a job for each combination of values:\n"
                      "training.learning_rate=1e-4,3e-4 lora.r=8,16");
  verb.add_option("--random N FIELD=VALUES…", arguments.random,
                  "Queue N jobs with values drawn at random: of a list, or\n"
                  "uniform(0,0.1), log(1e-5,1e-3), int(1,100)")
      ->expected(2, INT_MAX)
      ->excludes(grid);
  verb.add_option("--seed N", arguments.seed,
                  "Of --random: the same seed draws the same values")
      ->capture_default_str();
  verb.add_option("--name NAME", arguments.name,
                  "The sweep's name, the label sweep=NAME of its jobs;\n"
                  "default: the job's name");
  verb.add_flag("--hold", arguments.hold, "Queue the jobs held");
  verb.add_option("--idempotency-key KEY", arguments.idempotency_key,
                  "The same key and jobs return the existing jobs;\n"
                  "default: made from the sweep's name");
}

absl::StatusOr<std::vector<SweepJob>> MakeJobs(const GridArguments& arguments,
                                               const std::string& spec_json,
                                               const std::string& name) {
  const bool draws = !arguments.random.empty();
  std::vector<std::string> texts = arguments.grid;
  size_t count = 0;
  if (draws) {
    if (!absl::SimpleAtoi(arguments.random.front(), &count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--random '", Printable(arguments.random.front()),
                       "': expected how many to draw, then FIELD=VALUES"));
    }
    texts.assign(arguments.random.begin() + 1, arguments.random.end());
  }
  std::vector<SweepField> fields;
  for (const std::string& text : texts) {
    absl::StatusOr<SweepField> field = ParseSweepField(text);
    if (!field.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          draws ? "--random " : "--grid ", field.status().message()));
    }
    fields.push_back(*std::move(field));
  }
  ASSIGN_OR_RETURN(
      const auto combinations,
      draws ? DrawValues(fields, count, arguments.seed) : ExpandGrid(fields));
  return MakeSweepJobs(spec_json, name, fields, combinations);
}

// The key of --sort that ranks the jobs, the best first.
std::string RankedBy(const spec::TrainSpec& spec) {
  if (spec.dataset.eval.empty() && spec.dataset.validation_split == 0) {
    return kTrainLoss;
  }
  absl::string_view name = spec.training.metric_for_best_model;
  absl::ConsumePrefix(&name, "eval_");
  const std::string metric(name.empty() ? "loss" : name);
  // --sort has each metric's own direction; job.json may have the other one.
  const bool greater = metrics::GreaterIsBetter(metric);
  const bool reversed =
      spec.training.greater_is_better.value_or(greater) != greater;
  return absl::StrCat(reversed ? "-" : "",
                      metric == "loss" ? "eval_" : "metrics.", metric);
}

// Queues the jobs one by one, each under its own key, and reports the result.
class Queueing {
 public:
  // `metric`: the jobs are ranked by it.
  Queueing(const Console& console, std::string name, std::string key,
           std::string metric)
      : console_(console),
        name_(std::move(name)),
        key_(std::move(key)),
        metric_(std::move(metric)) {}

  // `request`: common to all jobs.
  ExitCode Run(const std::vector<SweepJob>& jobs,
               const v1::SubmitRequest& request,
               const std::function<grpc::Status()>& upload) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      v1::SubmitRequest one = request;
      one.set_spec_json(jobs[i].spec_json);
      one.mutable_labels()->insert(jobs[i].labels.begin(),
                                   jobs[i].labels.end());
      one.set_idempotency_key(absl::StrFormat("%s/%04d", key_, i + 1));
      v1::SubmitResponse response;
      const ExitCode code = SubmitSurely(console_, &one, upload, &response);
      if (code != ExitCode::kOk) return Stopped(code, i, jobs.size());
      existed_ += response.existed() ? 1 : 0;
      Print(response, jobs[i]);
    }
    if (!console_.json) PrintEnd(jobs.size());
    return ExitCode::kOk;
  }

 private:
  std::string Label() const {
    return absl::StrCat("--label '", kSweepLabel, "=",
                        absl::StrReplaceAll(Printable(name_), {{"'", "'\\''"}}),
                        "'");
  }

  void Print(const v1::SubmitResponse& response, const SweepJob& job) const {
    if (console_.json) return console_.PrintJson(response.job());
    console_.out << "Job " << response.job().id()
                 << (response.existed() ? " was submitted before: " : " ")
                 << StateName(response.job().state()) << ": " << job.values
                 << '\n'
                 << std::flush;
  }

  void PrintEnd(size_t count) const {
    console_.out << "Sweep " << Printable(name_) << ": " << count << " jobs";
    if (existed_ > 0)
      console_.out << ", " << existed_ << " of them from before";
    console_.out << "\nRank them: `mpsctl list " << Label() << " --sort "
                 << metric_ << "`\nCompare them: `mpsctl report " << Label()
                 << "`\n";
  }

  ExitCode Stopped(ExitCode code, size_t queued, size_t of) const {
    console_.err << "mpsctl: " << queued << " of the " << of
                 << " jobs of sweep " << Printable(name_) << " are queued";
    if (queued > 0) {
      console_.err << ": the same command queues the rest, `mpsctl cancel "
                   << Label() << "` ends those";
    }
    console_.err << ". A sweep of other jobs needs another --name.\n";
    return code;
  }

  const Console& console_;
  const std::string name_, key_, metric_;
  size_t existed_ = 0;
};

ExitCode Sweep(const GridArguments& arguments, const Console& console) {
  if (arguments.grid.empty() && arguments.random.empty()) {
    return console.BadInput(
        "sweep: expected --grid or --random",
        "`mpsctl sweep JOB --grid lora.r=8,16` queues a job for each value; "
        "`mpsctl check batch JOB` tries batch sizes.");
  }
  const QueueOptions& job = arguments.job;
  const auto fail = [&](const absl::Status& status) {
    return console.BadInput(status, "Nothing was submitted.");
  };
  const absl::StatusOr<PreparedJob> prepared =
      PrepareJob(job.job, Hashing(console, job.job.rehash));
  if (!prepared.ok()) return fail(prepared.status());
  const auto spec = spec::ParseTrainSpec(prepared->spec_json, job.job.path);
  if (!spec.ok()) return fail(spec.status());
  std::string name = arguments.name.empty() ? spec->name : arguments.name;
  if (name.empty() && job.job.path != "-") {
    name = std::filesystem::path(job.job.path).stem().string();
  }
  if (name.empty()) name = "sweep";
  const absl::StatusOr<std::vector<SweepJob>> jobs =
      MakeJobs(arguments, prepared->spec_json, name);
  if (!jobs.ok()) return fail(jobs.status());
  v1::SubmitRequest request = RequestOf(*prepared);
  absl::Status labelled =
      AddJobLabels(job.job_labels, request.mutable_labels());
  if (labelled.ok() && request.labels().contains(kSweepLabel)) {
    labelled = absl::InvalidArgumentError(
        "--label sweep: is the sweep's own name: give it with --name");
  }
  if (!labelled.ok()) return fail(labelled);
  for (const SweepJob& one : *jobs) {
    for (const auto& [label, value] : one.labels) {
      request.mutable_labels()->erase(label);
    }
  }
  request.set_priority(job.priority);
  request.set_anyway(job.anyway);
  request.set_held(arguments.hold);
  const auto upload = [&] { return Upload(console, prepared->files); };
  const grpc::Status uploaded = upload();
  if (!uploaded.ok()) return console.Fail(uploaded);
  // The key is derived from the name, so that the same command resumes where an
  // earlier one ended.
  const std::string key =
      arguments.idempotency_key.empty()
          ? absl::StrCat("sweep-", base::Sha256Hex(name).substr(0, 32))
          : arguments.idempotency_key;
  return Queueing(console, name, key, RankedBy(*spec))
      .Run(*jobs, request, upload);
}

}  // namespace

std::vector<Verb> StudyVerbs() {
  return {
      {"smoke", "Ten short epochs of a slice: is memory stable?",
       Takes(DeclareSmoke, RunSmoke), "mpsctl check smoke job.json"},
      {"devices", "Is MPS or CUDA faster than the CPU, and as exact?",
       Takes(DeclareCompareDevices, Compare),
       "mpsctl check devices job.json --steps 50"},
      {"profile", "Where the time of a job's steps goes, and why",
       Takes(DeclareProfile, Profile),
       "mpsctl check profile job.json --trace slow.json.gz\n"
       "mpsctl check profile moods"},
      {"batch", "Throughput and memory by batch size",
       Takes(DeclareBatchSweep, RunBatchSweep),
       "mpsctl check batch job.json -o batch.csv"},
      {"plan", "Estimate what a job needs and how long it takes",
       Takes(DeclarePlan, Plan), "mpsctl plan job.json"},
      {"sweep", "Queue a job for each combination of values",
       Takes(DeclareGrid, Sweep),
       "mpsctl sweep job.json --grid lora.r=8,16 "
       "training.learning_rate=1e-4,3e-4\n"
       "mpsctl sweep job.json --random 20 'training.learning_rate="
       "log(1e-5,1e-3)'"},
  };
}

}  // namespace mpsd::client
