// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_batch.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/command_line.h"
#include "client/given.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "core/base/file.h"

namespace mpsd::client {
namespace {

constexpr int kMostBatch = 65536;
constexpr int kMostSteps = 1000;

std::string Percent(double part) {
  return absl::StrFormat("%.0f %%", 100 * part);
}

// A text for one cell: quoted, so that no spreadsheet splits it.
std::string Quoted(const std::string& text) {
  return absl::StrCat(
      "\"", absl::StrReplaceAll(Printable(text), {{"\"", "\"\""}}), "\"");
}

// What is particular to a batch: "knee, largest", or why it does not fit.
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

// The memory that it held, "~" before a figure that was not measured.
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
  verb.add_option("--csv", arguments->csv, "Write what was found as a table")
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
         point.has_padding_share() ? Percent(point.padding_share()) : "-",
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

}  // namespace mpsd::client
