// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/report/runbook.h"
#include "core/spec/memory_estimate.h"
#include "core/study/measured_run.h"
#include "core/study/study.h"

namespace mpsd::study {
namespace {

using runbook::Finding;
using runbook::Verdict;

// A process's own memory varies by this much without any job.
constexpr double kSmallBytes = 64 << 20;

// The estimate of what the run does: its micro-batches at its longest rows, no
// evaluation.
spec::MemoryEstimate EstimateOf(const train::Prepared& run) {
  const train::Loaded& loaded = run.loaded;
  spec::TrainSpec spec = *loaded.spec;
  spec.dataset.eval.clear();
  spec.dataset.validation_split = 0;
  spec.training.gradient_accumulation_steps =
      loaded.shapes().step_rows() / run.micro_batch_rows;
  spec.training.per_device_train_batch_size = run.micro_batch_rows;
  spec.training.set_recompute(loaded.network->options().recompute);
  if (!spec.training.packing) {
    spec.training.max_length =
        loaded.shapes().LongestSample(*loaded.data.train);
  }
  return spec::EstimateMemory(spec, loaded.network->config(),
                              loaded.device->traits());
}

nlohmann::json ToJson(const spec::MemoryEstimate& estimate) {
  return {{"base_weights_bytes", estimate.base_weights_bytes},
          {"trainable_bytes", estimate.trainable_bytes},
          {"activations_bytes", estimate.activations_bytes},
          {"logits_bytes", estimate.logits_bytes},
          {"backward_bytes", estimate.backward_bytes},
          {"inputs_bytes", estimate.inputs_bytes},
          {"heap_bytes", estimate.heap_bytes},
          {"total_bytes", estimate.total_bytes}};
}

// What a run reports before its first step.
struct Shape {
  spec::MemoryEstimate estimate;
  int64_t longest_row_tokens = 0;
  std::string gradients;
};

Finding MemoryFinding(const Measurement& found, double limit) {
  Finding finding = {"probe.memory", Verdict::kPass, ""};
  const MemoryPeaks& peaks =
      found.steps.empty() ? found.loaded : found.training;
  const auto held = static_cast<double>(HeldBytes(peaks));
  finding.value = held;
  finding.threshold = limit;
  finding.unit = "bytes";
  const std::string advice =
      "a smaller per_device_train_batch_size with more "
      "gradient_accumulation_steps, gradient_checkpointing, a smaller "
      "max_length or load_in_4bit take less; `mpsctl plan` computes them";
  if (found.out_of_memory) {
    finding.verdict = Verdict::kFail;
    finding.found = absl::StrCat("out of memory after ", found.steps.size(),
                                 " steps: ", found.out_of_memory_text);
    finding.advice = advice;
    return finding;
  }
  finding.found =
      absl::StrCat(base::BytesText(held), " at most by the ", HeldBy(peaks),
                   ", ", base::BytesText(limit), " is the limit");
  if (held > limit) {
    finding.verdict = Verdict::kWarn;
    finding.advice =
        absl::StrCat("the job runs, but has no room to spare: ", advice);
  }
  return finding;
}

Finding EstimateFinding(double measured, double estimate, double allowed) {
  const double difference = std::abs(measured - estimate) / estimate;
  // The verdict follows from value and threshold.
  const double threshold = std::max(allowed, kSmallBytes / estimate);
  return Judge(
      {.name = "probe.estimate",
       .found = absl::StrCat("measured ", base::BytesText(measured),
                             ", estimated ", base::BytesText(estimate)),
       .value = difference,
       .threshold = threshold,
       .unit = "ratio"},
      difference > threshold, Verdict::kWarn,
      "jobs are checked against the estimate when queued: trust the measured "
      "figure, and queue with --anyway if only the estimate is too large");
}

nlohmann::json ToJson(const Measurement& found, const Shape& shape,
                      const MeasureOptions& options) {
  const Measurement::Taken taken = found.TakenBytes();
  nlohmann::json result = {
      {"device", found.device},
      {"device_description", found.device_description},
      {"warmup_steps", options.warmup_steps},
      {"steps", found.Counted().size()},
      {"step_rows", found.step_rows},
      {"micro_batch_rows", found.micro_batch_rows},
      {"longest_row_tokens", shape.longest_row_tokens},
      {"gradients", shape.gradients},
      {"step_seconds", ToJson(found.Seconds())},
      {"data_wait_seconds", ToJson(found.DataWaitSeconds())},
      {"tokens_per_second", found.TokensPerSecond()},
      {"rows_per_second", found.RowsPerSecond()},
      {"load_seconds", found.load_seconds},
      {"loaded", ToJson(found.loaded)},
      {"training", ToJson(found.training)},
      {"idle_footprint_bytes", found.idle_footprint_bytes},
      {"peak_bytes", taken.bytes},
      {"peak_from", taken.from},
      {"estimate", ToJson(shape.estimate)}};
  if (const auto share = found.PaddingShare()) result["padding_share"] = *share;
  if (found.out_of_memory) {
    result["out_of_memory"] = true;
    result["out_of_memory_text"] = found.out_of_memory_text;
  }
  return result;
}

}  // namespace

absl::StatusOr<Found> Probe(const Study& study) {
  ASSIGN_OR_RETURN(const auto asked,
                   runbook::ProbeOptionsFromJson(study.options));
  Shape shape;
  MeasureOptions options;
  options.warmup_steps = asked.warmup_steps;
  options.steps = asked.steps;
  options.rows = Rows::kLongest;
  options.prepared = [&](const train::Prepared& run) {
    shape = {EstimateOf(run),
             run.loaded.shapes().LongestSample(*run.loaded.data.train),
             run.stepper->gradient_path()};
    return absl::OkStatus();
  };
  StudyProgress progress(study.observer, asked.warmup_steps + asked.steps);
  MeasuredRun run(study.spec, study.context, progress);
  ASSIGN_OR_RETURN(const Measurement measured, run.Measure(options));
  Found found;
  found.result = ToJson(measured, shape, options);
  const int64_t limit =
      MemoryLimit(measured.steps.empty() ? measured.loaded : measured.training,
                  study.thresholds.Get("probe.memory_share"));
  found.result["memory_limit_bytes"] = limit;
  found.findings.push_back(MemoryFinding(measured, static_cast<double>(limit)));
  if (!measured.out_of_memory && shape.estimate.total_bytes > 0) {
    const auto taken = static_cast<double>(measured.TakenBytes().bytes);
    const auto estimate = static_cast<double>(shape.estimate.total_bytes);
    found.result["estimate_ratio"] = taken / estimate;
    found.findings.push_back(EstimateFinding(
        taken, estimate, study.thresholds.Get("probe.estimate_error")));
  }
  return found;
}

}  // namespace mpsd::study
