// SPDX-License-Identifier: Apache-2.0
#include "client/runbook_steps.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/smoke.h"
#include "client/sweep_batch.h"
#include "client/text/format.h"
#include "core/base/bytes_text.h"

namespace mpsd::client {
namespace {

std::string SourceName(v1::PlanSource source) {
  switch (source) {
    case v1::PLAN_SOURCE_ESTIMATE:
      return "estimated";
    case v1::PLAN_SOURCE_ROOFLINE:
      return "by the chip's rates";
    case v1::PLAN_SOURCE_HISTORY:
      return "as earlier runs took";
    case v1::PLAN_SOURCE_PROBE:
      return "as a probe measured";
    default:
      return "not told from where";
  }
}

std::vector<std::string> SweepLines(const v1::BatchSweepResult& sweep) {
  const auto batch = [](int rows) {
    return rows > 0 ? absl::StrCat(rows) : std::string("not found");
  };
  return {absl::StrFormat(
      "On %s (%s): the largest batch that fits is %s, the knee %s; the job has "
      "%d. The search ended by %s. Memory by the %s, of which %s may be held.",
      sweep.device(), sweep.device_description(), batch(sweep.largest_batch()),
      batch(sweep.knee_batch()), sweep.job_batch(), sweep.ended_by(),
      sweep.peak_from(), Bytes(sweep.memory_limit_bytes()))};
}

StepTable SweepTable(const v1::BatchSweepResult& sweep) {
  StepTable table;
  table.header = {"batch",         "a step", "tokens a second",
                  "rows a second", "memory", ""};
  for (const v1::BatchPoint& point : sweep.points()) {
    const bool timed = point.has_step_seconds();
    table.rows.push_back(
        {absl::StrCat(point.batch()),
         timed ? absl::StrFormat("%.3g s", point.step_seconds().median()) : "-",
         timed ? Count(point.tokens_per_second()) : "-",
         timed ? absl::StrFormat("%.4g", point.rows_per_second()) : "-",
         BatchMemory(point), BatchNote(sweep, point)});
  }
  return table;
}

std::vector<std::string> SmokeLines(const v1::SmokeResult& smoke) {
  const auto& environment = smoke.environment();
  return {
      absl::StrFormat(
          "On %s (%s, torch %s): %d epochs of %d rows; memory (%s) grew by "
          "%.1f %%, %s an epoch; a step took %.3g s.",
          smoke.device(), environment.device_description(),
          environment.torch_version(), smoke.epochs_size(), smoke.rows(),
          smoke.memory_from(), 100 * smoke.memory_growth(),
          Bytes(static_cast<int64_t>(smoke.slope_bytes_per_epoch())),
          smoke.step_seconds().median()),
      absl::StrCat("Training data: SHA-256 ", environment.train_sha256(), ".")};
}

std::vector<std::string> ParityLines(const v1::ParityResult& parity) {
  return {absl::StrFormat(
      "%s against %s in %s: %d steps; %d of %d tensors equal bit for bit.",
      parity.device(), parity.reference(), parity.dtype(), parity.steps_size(),
      parity.tensors_equal(), parity.tensors_compared())};
}

}  // namespace

std::vector<std::string> PlanLines(const v1::Plan& plan) {
  std::vector<std::string> lines;
  const v1::PlanRows& rows = plan.data().train();
  lines.push_back(absl::StrFormat(
      "%s rows, %s tokens; %s steps of %d rows over %.3g epochs.",
      Count(static_cast<double>(rows.rows())),
      Count(static_cast<double>(rows.tokens())),
      Count(static_cast<double>(plan.steps().total_steps())),
      plan.steps().batch_rows(), plan.steps().epochs()));
  std::string memory = absl::StrCat(
      "Memory at its peak ", base::BytesText(plan.memory().peak_bytes()), " (",
      SourceName(plan.memory().source()), ")");
  if (plan.memory().has_limit_bytes()) {
    absl::StrAppend(&memory, " of ",
                    base::BytesText(plan.memory().limit_bytes()));
  }
  lines.push_back(memory + ".");
  if (plan.time().has_total_seconds()) {
    lines.push_back(absl::StrCat("Time ", Seconds(plan.time().total_seconds()),
                                 " (", SourceName(plan.time().source()), ")."));
  }
  return lines;
}

std::vector<std::string> StudyLines(const v1::StudyResult& result) {
  switch (result.result_case()) {
    case v1::StudyResult::kBatchSweep:
      return SweepLines(result.batch_sweep());
    case v1::StudyResult::kSmoke:
      return SmokeLines(result.smoke());
    case v1::StudyResult::kParity:
      return ParityLines(result.parity());
    default:
      return {};
  }
}

StepTable StudyTable(const v1::StudyResult& result) {
  return result.has_batch_sweep() ? SweepTable(result.batch_sweep())
                                  : StepTable();
}

std::string StudyChart(const v1::StudyResult& result) {
  switch (result.result_case()) {
    case v1::StudyResult::kBatchSweep:
      return BatchSweepChart(result.batch_sweep()).Draw();
    case v1::StudyResult::kSmoke:
      return MemoryChart(result.smoke()).Draw();
    default:
      return "";
  }
}

bool HasBatches(const v1::Runbook& runbook) {
  return runbook.batch_sweep().batch_sweep().points_size() >= 2;
}

bool HasMemoryCurve(const v1::Runbook& runbook) {
  return runbook.smoke().smoke().epochs_size() >= 2;
}

}  // namespace mpsd::client
