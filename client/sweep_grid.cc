// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_grid.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/inputs.h"
#include "client/job_labels.h"
#include "client/reconnect.h"
#include "client/round_trip.h"
#include "client/sure_submit.h"
#include "client/sweep_svg.h"
#include "client/sweep_text.h"
#include "client/sweep_values.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "core/base/file.h"
#include "core/spec/field_edit.h"

namespace mpsd::client {
namespace {

// While a daemon restarts, the sweep goes on.
constexpr absl::Duration kPatience = absl::Minutes(10);
constexpr absl::Duration kInterval = absl::Seconds(1);

absl::Status ReadParameters(const GridArguments& arguments,
                            v1::CreateSweepRequest& request) {
  std::vector<std::string> texts = arguments.grid;
  const char* option = "--grid ";
  request.set_strategy(v1::SWEEP_STRATEGY_GRID);
  if (!arguments.random.empty()) {
    option = "--random ";
    request.set_strategy(v1::SWEEP_STRATEGY_RANDOM);
    int32_t count = 0;
    if (!absl::SimpleAtoi(arguments.random.front(), &count)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--random '", Printable(arguments.random.front()),
                       "': expected how many to draw, then FIELD=VALUES"));
    }
    request.set_count(count);
    texts.assign(arguments.random.begin() + 1, arguments.random.end());
  }
  for (const std::string& text : texts) {
    const absl::Status read = ReadParameter(text, *request.add_parameters());
    if (!read.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(option, read.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status FillRequest(const StudyArguments& job,
                         const GridArguments& arguments,
                         const PreparedJob& prepared,
                         v1::CreateSweepRequest& request) {
  v1::SubmitRequest& submission = *request.mutable_submission();
  submission = RequestOf(prepared);
  if (!arguments.name.empty()) {
    auto spec = nlohmann::ordered_json::parse(prepared.spec_json);
    spec["name"] = arguments.name;
    submission.set_spec_json(spec.dump());
  }
  submission.set_priority(job.priority);
  submission.set_anyway(job.anyway);
  submission.set_held(arguments.hold);
  submission.set_idempotency_key(arguments.idempotency_key.empty()
                                     ? NewIdempotencyKey()
                                     : arguments.idempotency_key);
  request.set_seed(arguments.seed);
  request.set_eta(arguments.eta);
  request.mutable_rungs()->Add(arguments.rungs.begin(), arguments.rungs.end());
  request.set_metric(arguments.metric);
  if (arguments.greater_is_better) {
    request.set_greater_is_better(*arguments.greater_is_better);
  }
  absl::Status filled =
      AddJobLabels(job.job_labels, submission.mutable_labels());
  return filled.ok() ? ReadParameters(arguments, request) : filled;
}

// The same request, under the same key, until the daemon has told the result.
grpc::Status Create(const Console& console, v1::CreateSweepRequest& request,
                    v1::Sweep* sweep) {
  Reconnect reconnect(console, kPatience);
  {
    // A daemon that cannot be reached at first is an error at once.
    const grpc::Status reached = Reach(console, request.mutable_submission());
    if (!reached.ok()) return reached;
    reconnect.Received();
  }
  while (true) {
    // Without a deadline: the connection's keepalive notices a dead daemon.
    grpc::ClientContext context;
    const grpc::Status status =
        console.daemon.sweeps().CreateSweep(&context, request, sweep);
    if (status.ok() || !reconnect.ShouldRetry(status)) return status;
  }
}

// Shows how the sweep goes on until it has ended; *sweep is then as it was
// last.
ExitCode Follow(const Console& console, v1::Sweep* sweep) {
  std::ostream& course = console.json ? console.err : console.out;
  Interrupt::Listener listener(console.terminal.interrupt, [] {});
  Reconnect reconnect(console, kPatience);
  std::string shown;
  v1::GetSweepRequest request;
  request.set_id(sweep->id());
  while (true) {
    std::string progress = SweepProgress(*sweep);
    if (!sweep->rungs().empty()) {
      absl::StrAppend(&progress, ", ", sweep->rungs_decided(), "/",
                      sweep->rungs_size(), " rungs");
    }
    if (progress != shown) course << progress << '\n' << std::flush;
    shown = std::move(progress);
    if (HasEnded(*sweep)) return ExitCode::kOk;
    console.terminal.sleep(kInterval);
    if (listener.raised()) {
      console.err << "mpsctl: sweep " << sweep->id()
                  << " goes on; see it with `mpsctl sweep show " << sweep->id()
                  << "`, end it with `mpsctl sweep cancel " << sweep->id()
                  << "`.\n";
      return ExitCode::kDetached;
    }
    grpc::ClientContext context;
    SetDeadline(context);
    v1::Sweep next;
    const grpc::Status status =
        console.daemon.sweeps().GetSweep(&context, request, &next);
    if (status.ok()) {
      reconnect.Received();
      *sweep = std::move(next);
    } else if (!reconnect.ShouldRetry(status)) {
      return console.Fail(status);
    }
  }
}

ExitCode WriteText(const Console& console, const std::string& path,
                   const std::string& text) {
  if (path.empty()) return ExitCode::kOk;
  const absl::Status written = base::WriteFileAtomic(path, text);
  if (written.ok()) return ExitCode::kOk;
  return console.Fail(ExitCode::kOther, written, "");
}

}  // namespace

void DeclareGrid(Command& verb, GridArguments* arguments) {
  Option* grid = verb.add_option("--grid", arguments->grid,
                                 "Queue a job for each combination of values:\n"
                                 "training.learning_rate=1e-4,3e-4 lora.r=8,16")
                     ->type_name("FIELD=VALUES…");
  verb.add_option("--random", arguments->random,
                  "Queue N jobs with values drawn at random: of a list, or\n"
                  "uniform(0,0.1), log(1e-5,1e-3), int(1,100)")
      ->type_name("N FIELD=VALUES…")
      ->expected(2, INT_MAX)
      ->excludes(grid);
  verb.add_option("--seed", arguments->seed,
                  "Of --random: the same seed draws the same values")
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--eta", arguments->eta,
                  "End the losing jobs early: at each rung the best 1/ETA go\n"
                  "on, from their checkpoints")
      ->type_name("ETA");
  verb.add_option("--rungs", arguments->rungs,
                  "The steps of the rungs, with commas between them; else by\n"
                  "--eta and training.max_steps")
      ->type_name("STEPS")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--metric", arguments->metric,
                  "Rank by this metric of the task, or by loss")
      ->type_name("NAME");
  verb.add_flag("--greater-is-better,!--less-is-better",
                arguments->greater_is_better,
                "Which values of the metric rank first");
  verb.add_option("--name", arguments->name, "The sweep's name")
      ->type_name("NAME");
  verb.add_flag("--hold", arguments->hold, "Queue the jobs held");
  verb.add_option("--idempotency-key", arguments->idempotency_key,
                  "With the same key and request, the same sweep")
      ->type_name("KEY");
}

bool GridAsked(const GridArguments& arguments) {
  return !arguments.grid.empty() || !arguments.random.empty();
}

ExitCode WriteSweepFiles(const Console& console, const v1::Sweep& sweep,
                         const std::string& svg, const std::string& csv) {
  const ExitCode code =
      WriteText(console, svg, svg.empty() ? "" : SweepSvg(sweep));
  return code != ExitCode::kOk
             ? code
             : WriteText(console, csv, csv.empty() ? "" : SweepCsv(sweep));
}

ExitCode RunGrid(const Console& console, const StudyArguments& job,
                 const GridArguments& arguments) {
  const absl::StatusOr<PreparedJob> prepared =
      PrepareJob(job.job_file, Hashing(console, job.rehash));
  if (!prepared.ok()) {
    return console.Fail(ExitCode::kBadInput, prepared.status(),
                        "Nothing was submitted.");
  }
  v1::CreateSweepRequest request;
  const absl::Status filled = FillRequest(job, arguments, *prepared, request);
  if (!filled.ok()) {
    return console.Fail(ExitCode::kBadInput, filled, "Nothing was submitted.");
  }
  grpc::Status status = Upload(console, prepared->files);
  if (!status.ok()) return console.Fail(status);
  v1::Sweep sweep;
  status = Create(console, request, &sweep);
  if (!status.ok()) return console.Fail(status);
  if (!console.json) {
    console.out << "Sweep " << sweep.id()
                << (sweep.existed() ? " exists already: " : " is queued: ")
                << sweep.total() << " jobs\n"
                << std::flush;
  }
  if (!job.detach) {
    const ExitCode followed = Follow(console, &sweep);
    if (followed != ExitCode::kOk) return followed;
  }
  if (console.json) {
    console.PrintJson(sweep);
  } else if (!job.detach) {
    PrintSweep(sweep, console.terminal.is_tty ? console.terminal.columns() : 0,
               console.out);
  }
  const ExitCode written =
      WriteSweepFiles(console, sweep, arguments.svg, arguments.csv);
  if (written != ExitCode::kOk || job.detach || sweep.succeeded() > 0) {
    return written;
  }
  return ForJobState(sweep.failed() > 0 ? v1::JOB_STATE_FAILED
                                        : v1::JOB_STATE_CANCELLED);
}

}  // namespace mpsd::client
