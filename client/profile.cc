// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/given.h"
#include "client/job_id.h"
#include "client/job_labels.h"
#include "client/output_file.h"
#include "client/profile_text.h"
#include "client/send_job.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
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
  absl::Status added =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (!added.ok()) return added;
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
  // What the job was besides its training does not count.
  request.clear_kind();
  request.clear_after();
  request.set_held(false);
  request.set_priority(arguments.priority);
  request.set_anyway(request.anyway() || arguments.anyway);
  *request.mutable_study() = study;
  absl::Status added =
      AddJobLabels(arguments.job_labels, request.mutable_labels());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  // While the job exists, so do its inputs: nothing is sent.
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
                      "The result says why, under \"Not told\".");
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
  // With --json the result alone is for the script; the job's course is for who
  // looks on.
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
      "profile", "Tell where the time of a job's steps goes, and why");
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
