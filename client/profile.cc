// SPDX-License-Identifier: Apache-2.0
#include "client/profile.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/download.h"
#include "client/job_id.h"
#include "client/study.h"
#include "client/submit.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/base/status_macros.h"

namespace mpsd::client {

namespace {

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
    absl::StrAppend(&text, text.empty() ? "" : ", ", what, " ", Bytes(bytes));
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
  for (const std::string& text : profile.not_told()) {
    out << "Unknown: " << Printable(text) << '\n';
  }
  if (profile.has_trace()) {
    out << "Trace: " << Printable(profile.trace().file()) << ", "
        << Bytes(profile.trace().size_bytes()) << ", the last "
        << profile.trace().steps() << " steps, for Perfetto: `mpsctl download "
        << result.job_id() << " --output DIR`\n";
  }
  out << '\n';
}

namespace {

namespace fs = std::filesystem;

constexpr char kTraceFile[] = "trace.json.gz";

struct ProfileArguments {
  StudyArguments study;
  std::optional<int32_t> steps, warm_up;
  std::string trace;  // FILE; empty: the trace stays with the job
};

// Whether `text` names a file; otherwise it is a job's id.
bool NamesFile(const std::string& text) {
  std::error_code error;
  return fs::exists(text, error) ||
         text.find_first_of("./") != std::string::npos;
}

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

// Queues the job `id` again, with its inputs, as `study`; then as FindOut.
ExitCode FindOutOf(const Console& console, const std::string& text,
                   const StudyArguments& arguments, const v1::Study& study,
                   v1::StudyResult* result) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, text, &code);
  if (!id) return code;
  v1::SubmitRequest request;
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetSubmissionRequest ask;
    ask.set_id(*id);
    const grpc::Status status =
        console.daemon.jobs().GetSubmission(&context, ask, &request);
    if (!status.ok()) return console.Fail(status);
  }
  // Only the job's training settings count.
  request.clear_kind();
  request.clear_after();
  request.set_held(false);
  request.set_priority(arguments.priority);
  request.set_anyway(request.anyway() || arguments.anyway);
  *request.mutable_study() = study;
  absl::Status added =
      AddJobLabels(arguments.job_labels, request.mutable_labels());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  // The job's inputs exist as long as the job: nothing is sent.
  const auto no_upload = [] { return grpc::Status::OK; };
  std::string profile;
  code = SendJob(console, std::move(request), no_upload, arguments.detach,
                 &profile);
  if (code != ExitCode::kOk || arguments.detach) return code;
  const grpc::Status status = GetStudyResult(console, profile, result);
  return status.ok() ? ExitCode::kOk : console.Fail(status);
}

ExitCode FetchTrace(const Console& console, const v1::StudyResult& result,
                    const std::string& path) {
  const ExitCode code =
      FetchOutputFile(console, result.job_id(), kTraceFile, path,
                      "The result says why, under \"Unknown\".");
  if (code != ExitCode::kOk) return code;
  // stdout is the result's, for scripts.
  console.err << "The trace is in " << Printable(path)
              << ": Perfetto and chrome://tracing open it.\n";
  return code;
}

ExitCode Profile(const ProfileArguments& arguments, const Console& console) {
  if (absl::Status s = CheckTrace(arguments.trace); !s.ok()) {
    return console.Fail(ExitCode::kBadInput, s, "Nothing was submitted.");
  }
  const absl::StatusOr<v1::Study> study = StudyOf(arguments);
  if (!study.ok()) {
    return console.Fail(ExitCode::kBadInput, study.status(),
                        "Nothing was submitted.");
  }
  // With --json, stdout is the result's, for scripts; the job's progress is for
  // the user.
  const bool detach = arguments.study.detach;
  const Console course{console.json && !detach ? console.err : console.out,
                       console.err, console.terminal, console.daemon,
                       console.json && detach};
  v1::StudyResult result;
  const ExitCode found = NamesFile(arguments.study.job_file)
                             ? FindOut(course, arguments.study, *study, &result)
                             : FindOutOf(course, arguments.study.job_file,
                                         arguments.study, *study, &result);
  if (found != ExitCode::kOk || detach) return found;
  const ExitCode verdict = ShowStudy(console, result, PrintProfile);
  if (arguments.trace.empty()) return verdict;
  const ExitCode fetched = FetchTrace(console, result, arguments.trace);
  return fetched == ExitCode::kOk ? verdict : fetched;
}

}  // namespace

void AddProfile(Command& app, Action* action) {
  auto arguments = std::make_shared<ProfileArguments>();
  Command* verb = app.add_subcommand(
      "profile", "Show where the time of a job's steps goes, and why");
  DeclareStudy(*verb, &arguments->study);
  verb->get_option("JOB")->description(
      "The job.json, or the id of a job to profile again");
  verb->add_option("--steps", arguments->steps,
                   "Steps under the profiler; default: profile.steps, 50")
      ->type_name("N")
      ->check(Range(1, 1000));
  verb->add_option("--warm-up", arguments->warm_up,
                   "Steps before them; default: 10")
      ->type_name("N")
      ->check(Range(1, 1000));
  verb->add_option("--trace", arguments->trace,
                   "Save the last steps' trace there, NAME.json.gz, for\n"
                   "Perfetto or chrome://tracing")
      ->type_name("FILE")
      ->check(Given);
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Profile(*arguments, console);
    };
  });
}

}  // namespace mpsd::client
