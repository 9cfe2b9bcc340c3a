// SPDX-License-Identifier: Apache-2.0
#include "client/sweep.h"

#include <climits>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/command_line.h"
#include "client/download.h"
#include "client/inputs.h"
#include "client/job_id.h"
#include "client/list.h"
#include "client/study.h"
#include "client/submit.h"
#include "client/sweep_jobs.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "client/verbs.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {

namespace {

constexpr int kMostBatch = 65536;
constexpr int kMostSteps = 1000;

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
  return absl::StrCat(point.predicted() ? "~" : "", Bytes(point.peak_bytes()));
}

}  // namespace

void DeclareBatchSweep(Command& verb, BatchSweepArguments* arguments) {
  Option* batch = verb.add_flag(
      "--batch", arguments->batch,
      "Throughput and memory by batch size, up to near out of memory");
  const auto number = [&](const char* name, int32_t* value, int most,
                          const char* what) {
    verb.add_option(name, *value, what)
        ->type_name("N")
        ->check(Range(1, most))
        ->needs(batch);
  };
  number("--first-batch", &arguments->first_batch, kMostBatch,
         "The smallest batch; 1 by default");
  number("--max-batch", &arguments->max_batch, kMostBatch,
         "The largest batch; by default as many rows as the data have");
  number("--sweep-steps", &arguments->steps, kMostSteps,
         "Steps measured for each batch; 6 by default");
  number("--warmup-steps", &arguments->warmup_steps, kMostSteps,
         "Steps before those; 2 by default");
  verb.add_option("--memory-limit", arguments->memory_limit_gb,
                  "What a batch may hold; by default a share of what the "
                  "device recommends")
      ->type_name("GB")
      ->check(Range(1e-3, 1e6))
      ->needs(batch);
  verb.add_option("--csv", arguments->csv, "Write the results as a table")
      ->type_name("FILE")
      ->check(Given)
      ->needs(batch);
}

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
      {"BATCH", "TOKENS/S", "ROWS/S", "STEP", "PADDING", "MEMORY", "NOTE"});
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
              << Bytes(sweep.memory_limit_bytes()) << " may be held\n";
}

ExitCode RunBatchSweep(const Console& console, const StudyArguments& study,
                       const BatchSweepArguments& arguments) {
  v1::Study request;
  v1::BatchSweepOptions& options = *request.mutable_batch_sweep();
  options.set_first_batch(arguments.first_batch);
  options.set_max_batch(arguments.max_batch);
  options.set_steps(arguments.steps);
  options.set_warmup_steps(arguments.warmup_steps);
  options.set_memory_limit_bytes(arguments.memory_limit_gb * 1e9);
  absl::Status s =
      AddThresholds(study.thresholds, options.mutable_thresholds());
  if (!s.ok()) return console.Fail(ExitCode::kBadInput, s, "");
  if (study.detach) return RunStudy(console, study, request, PrintBatchSweep);
  const Console course{console.json ? console.err : console.out, console.err,
                       console.terminal, console.daemon, false};
  v1::StudyResult result;
  const ExitCode found = FindOut(course, study, request, &result);
  if (found != ExitCode::kOk) return found;
  const ExitCode verdict = ShowStudy(console, result, PrintBatchSweep);
  if (arguments.csv.empty()) return verdict;
  s = base::WriteFileAtomic(arguments.csv, BatchSweepCsv(result.batch_sweep()));
  if (s.ok()) return verdict;
  return console.Fail(
      ExitCode::kBadInput, s,
      absl::StrCat("`mpsctl show ", result.job_id(), "` shows the sweep."));
}

namespace {

struct GridArguments {
  std::vector<std::string> grid;
  std::vector<std::string> random;  // the number, and then the fields
  int64_t seed = 0;
  std::string name, idempotency_key;
  bool hold = false;

  bool asked() const { return !grid.empty() || !random.empty(); }
};

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
  verb.add_option("--name", arguments->name,
                  "The sweep's name, the label sweep=NAME of its jobs;\n"
                  "default: the job's name")
      ->type_name("NAME");
  verb.add_flag("--hold", arguments->hold, "Queue the jobs held");
  verb.add_option("--idempotency-key", arguments->idempotency_key,
                  "The same key and jobs return the existing jobs;\n"
                  "default: made from the sweep's name")
      ->type_name("KEY");
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

// The key of --sort that ranks the jobs.
std::string RankedBy(const spec::TrainSpec& spec) {
  if (spec.dataset.eval.empty()) return kTrainLoss;
  absl::string_view metric = spec.training.metric_for_best_model;
  absl::ConsumePrefix(&metric, "eval_");
  if (metric.empty() || metric == "loss") return "eval_loss";
  return absl::StrCat("metrics.", metric);
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
                 << (response.existed() ? " was queued before, "
                                        : " is queued, ")
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

ExitCode RunGrid(const Console& console, const StudyArguments& job,
                 const GridArguments& arguments) {
  const auto fail = [&](const absl::Status& status) {
    return console.Fail(ExitCode::kBadInput, status, "Nothing was submitted.");
  };
  const absl::StatusOr<PreparedJob> prepared =
      PrepareJob(job.job_file, Hashing(console, job.rehash));
  if (!prepared.ok()) return fail(prepared.status());
  const auto spec = spec::ParseTrainSpec(prepared->spec_json, job.job_file);
  if (!spec.ok()) return fail(spec.status());
  std::string name = arguments.name.empty() ? spec->name : arguments.name;
  if (name.empty()) name = std::filesystem::path(job.job_file).stem().string();
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

void AddSweep(Command& app, Action* action) {
  auto study = std::make_shared<StudyArguments>();
  auto batch = std::make_shared<BatchSweepArguments>();
  auto grid = std::make_shared<GridArguments>();
  Command* verb = app.add_subcommand(
      "sweep", "Find out which batch, or which values, are best");
  DeclareStudy(*verb, study.get());
  DeclareBatchSweep(*verb, batch.get());
  DeclareGrid(*verb, grid.get());
  verb->callback([=] {
    *action = [=](const Console& console) {
      if (batch->batch && grid->asked()) {
        return console.Fail(
            ExitCode::kBadInput,
            "sweep: expected --batch, or --grid or --random, not both",
            "A sweep of batches is one job; the others are many.");
      }
      const absl::Status there = CheckOutputFile("--csv", batch->csv);
      if (!there.ok()) {
        return console.Fail(ExitCode::kBadInput, there,
                            "Nothing was submitted.");
      }
      if (batch->batch) return RunBatchSweep(console, *study, *batch);
      if (grid->asked()) return RunGrid(console, *study, *grid);
      return console.Fail(
          ExitCode::kBadInput, "sweep: expected --batch, --grid or --random",
          "`mpsctl sweep JOB --batch` tries batch sizes, `mpsctl sweep JOB "
          "--grid lora.r=8,16` queues a job for each value.");
    };
  });
}

}  // namespace mpsd::client
