// SPDX-License-Identifier: Apache-2.0
#include "client/plan.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/console.h"
#include "client/inputs.h"
#include "client/job_id.h"
#include "client/study.h"
#include "client/submit.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "client/verbs.h"
#include "core/base/units.h"

namespace mpsd::client {

namespace {

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
       absl::StrFormat("%d evaluations, %d checkpoints, %d steps of warm-up",
                       steps.evaluations(), steps.checkpoints(),
                       steps.warmup_steps()));
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
      {"inputs", memory.inputs_bytes()}};
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
                              " tokens a second")
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
      BytesText(disk.total_bytes()), " at its most: ", disk.checkpoints_kept(),
      " checkpoints of ", BytesText(disk.checkpoint_bytes()), ", the result ",
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
  Line(out, "ahead", absl::StrCat(queue.jobs_ahead(), " jobs"));
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
  for (const std::string& what : queue.not_told()) {
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
  Table table({"  MEMORY", "STEP", "TOTAL", "CHANGE"});
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

// One call of RunbookService.Plan; its stages are printed to console.err.
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
    console.err << "mpsctl: interrupted; mpsd abandons the plan.\n";
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
      "plan", "Estimate what a job.json needs and how long it takes");
  verb->add_option("JOB", options->job_file, "The job.json")
      ->required()
      ->type_name("")
      ->check(Given);
  Option* probe =
      verb->add_flag("--probe", options->probe,
                     "Measure memory and time first: queue a few steps at the\n"
                     "longest rows, and wait for them");
  verb->add_option("--probe-of", options->probe_id,
                   "Use what this probe of the same job measured")
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
