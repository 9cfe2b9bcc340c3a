// SPDX-License-Identifier: Apache-2.0
#include "client/plan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/given.h"
#include "client/inputs.h"
#include "client/job_id.h"
#include "client/progress_line.h"
#include "client/send_job.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(10);
constexpr absl::Duration kPause = absl::Seconds(2);

struct PlanOptions {
  std::string job_file;
  std::string probe_id;
  int32_t priority = 0;
  bool probe = false;
  bool rehash = false;
  ThresholdArguments thresholds;
};

// One call of RunbookService.Plan; its stages go to console.err.
class Planning {
 public:
  explicit Planning(const Console& console)
      : course_{console.err, console.err, console.terminal, console.daemon,
                false},
        line_(course_) {}

  grpc::Status Ask(const v1::PlanRequest& request, v1::Plan* plan) {
    grpc::ClientContext context;
    Interrupt::Listener listener(course_.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    auto reader = course_.daemon.runbook().Plan(&context, request);
    v1::PlanEvent event;
    bool planned = false;
    while (reader->Read(&event)) {
      if (event.has_plan()) {
        *plan = std::move(*event.mutable_plan());
        planned = true;
      } else {
        line_.Draw(0, 1, Printable(event.stage()));
      }
    }
    line_.Clear();
    grpc::Status status = reader->Finish();
    interrupted_ = listener.raised();
    if (!status.ok() || planned) return status;
    return grpc::Status(grpc::StatusCode::INTERNAL,
                        "mpsd ended the plan without telling it");
  }
  // mpsd makes as many plans as it may. Other daemons that cannot be reached
  // are UNAVAILABLE, too.
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

v1::SubmitRequest MakeRequest(const PlanOptions& options,
                              const PreparedJob& job) {
  v1::SubmitRequest request = RequestOf(job);
  request.set_priority(options.priority);
  return request;
}

// Queues a probe of the job and follows it to its end.
ExitCode Probe(const Console& console, const PlanOptions& options,
               v1::SubmitRequest request,
               const std::function<grpc::Status()>& upload, std::string* id) {
  v1::ProbeOptions& probe = *request.mutable_study()->mutable_probe();
  absl::Status added =
      AddThresholds(options.thresholds, probe.mutable_thresholds());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  // The plan alone is for the script; the probe's course is for who looks on.
  const Console course{console.err, console.err, console.terminal,
                       console.daemon, false};
  return SendJob(course, std::move(request), upload, /*detach=*/false, id);
}

// Has the daemon plan the job of `request`, whose files it has: fills *plan and
// returns kOk where the job fits, kVerdictFail where it does not. Otherwise
// prints why there is no plan: as Console::Fail; kBadInput for a threshold;
// kDetached after Ctrl-C, with which the daemon gives the plan up. A daemon
// that makes other plans is asked again for ten minutes.
ExitCode MakePlan(const Console& console, v1::SubmitRequest request,
                  const ThresholdArguments& thresholds, v1::Plan* plan,
                  const std::string& probe_id) {
  v1::PlanRequest asked;
  *asked.mutable_submission() = std::move(request);
  asked.set_probe_id(probe_id);
  absl::Status added = AddThresholds(thresholds, asked.mutable_thresholds());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  Planning planning(console);
  grpc::Status status = planning.Ask(asked, plan);
  for (absl::Duration waited; Planning::IsBusy(status) &&
                              !planning.interrupted() && waited < kPatience;
       waited += kPause) {
    planning.ShowWait();
    console.terminal.sleep(kPause);
    status = planning.Ask(asked, plan);
  }
  if (planning.interrupted() && !status.ok()) {
    console.err << "mpsctl: interrupted; mpsd gives the plan up.\n";
    return ExitCode::kDetached;
  }
  if (!status.ok()) return console.Fail(status);
  return plan->verdict() == v1::VERDICT_FAIL ? ExitCode::kVerdictFail
                                             : ExitCode::kOk;
}

ExitCode Plan(const PlanOptions& options, const Console& console) {
  absl::StatusOr<PreparedJob> job =
      PrepareJob(options.job_file, Hashing(console, options.rehash));
  if (!job.ok()) {
    return console.Fail(ExitCode::kBadInput, job.status(),
                        "Nothing was planned.");
  }
  for (const std::string& warning : job->warnings) {
    console.err << "warning: " << options.job_file << ": " << Printable(warning)
                << '\n';
  }
  std::string probe_id;
  if (!options.probe_id.empty()) {
    ExitCode code = ExitCode::kOk;
    const auto id = ResolveJobId(console, options.probe_id, &code);
    if (!id) return code;
    probe_id = *id;
  }
  const auto upload = [&] { return Upload(console, job->files); };
  const grpc::Status status = upload();
  if (!status.ok()) return console.Fail(status);
  v1::SubmitRequest request = MakeRequest(options, *job);
  if (options.probe) {
    const ExitCode probed = Probe(console, options, request, upload, &probe_id);
    if (probed != ExitCode::kOk) return probed;
  }
  v1::Plan plan;
  const ExitCode code = MakePlan(console, std::move(request),
                                 options.thresholds, &plan, probe_id);
  if (code != ExitCode::kOk && code != ForVerdict(plan.verdict())) return code;
  if (console.json) {
    console.PrintJson(plan);
  } else {
    PrintPlan(plan, console);
  }
  console.out << std::flush;
  return code;
}

}  // namespace

void AddPlan(Command& app, Action* action) {
  auto options = std::make_shared<PlanOptions>();
  Command* verb = app.add_subcommand(
      "plan", "Tell what a job.json would need and take; queues nothing");
  verb->add_option("JOB", options->job_file, "The job.json")
      ->required()
      ->type_name("")
      ->check(Given);
  Option* probe =
      verb->add_flag("--probe", options->probe,
                     "Measure memory and time first: queue a few steps at the\n"
                     "longest rows, and wait for them");
  verb->add_option("--probe-of", options->probe_id,
                   "Take what this probe of the same job measured")
      ->type_name(kJobIdName)
      ->excludes(probe);
  verb->add_option("--priority", options->priority,
                   "The job's, which decides how long it would wait")
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--rehash", options->rehash,
                 "Read every file again, also those that have not changed");
  DeclareThresholds(*verb, &options->thresholds);
  verb->callback([=] {
    *action = [=](const Console& console) { return Plan(*options, console); };
  });
}

}  // namespace mpsd::client
