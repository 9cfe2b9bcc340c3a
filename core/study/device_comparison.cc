// SPDX-License-Identifier: Apache-2.0
#include "core/study/device_comparison.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/device/device.h"
#include "core/report/study_options.h"
#include "core/study/spread.h"
#include "core/study/study_progress.h"

namespace mpsd::study {
namespace {

using Options = runbook::DeviceComparisonOptions;

// An evaluation costs as much as many steps; the metric of the first rows shows
// a device's errors as well as that of all rows.
constexpr int64_t kEvalSamples = 512;

// The device with which others are compared.
spec::DeviceChoice Reference() {
  for (const auto& [name, choice] : backend::kChoices) {
    if (backend::TraitsOf(choice).is_reference) return choice;
  }
  return spec::DeviceChoice::kAuto;
}

// Both devices are opened before anything runs, so that a missing one is found
// before time is spent on the other.
absl::Status FindDevices(Options& options) {
  if (options.devices.empty()) {
    ASSIGN_OR_RETURN(auto best, device::OpenBest());
    if (best->traits().is_reference) {
      return absl::FailedPreconditionError(
          "devices: this machine has neither MPS nor CUDA to compare its CPU "
          "with; name two of its devices to compare them anyway (`--devices "
          "cpu,cpu` shows how far two runs of one device differ)");
    }
    options.devices = {Reference(), *backend::ChoiceOf(best->name())};
  }
  for (const spec::DeviceChoice choice : options.devices) {
    ASSIGN_OR_RETURN(auto device, device::Open(choice));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceSide> RunOn(spec::DeviceChoice device, const Study& study,
                                 const Options& options,
                                 StudyProgress& progress) {
  spec::TrainSpec spec = study.spec;
  spec.device = device;
  // Each device would choose its own micro-batches.
  spec::TrainingSpec& training = spec.training;
  training.padding_free =
      training.padding_free.value_or(training.auto_find_batch_size);
  training.auto_find_batch_size = false;
  // Running out of memory ends a comparison, with the same error as a training.
  train::RunContext context = study.context;
  context.attempt = {};
  MeasuredRun run(std::move(spec), context, progress,
                  {.dropout = false, .eval_samples = kEvalSamples});
  DeviceSide side;
  MeasureOptions measure;
  measure.warmup_steps = options.warmup_steps;
  measure.steps = options.steps;
  measure.prepared = [&](const train::Prepared& prepared) {
    side.gradients = prepared.manifest.gradients;
    side.numbers.dtype = prepared.loaded.spec->training.bf16 ? "bf16" : "fp32";
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(auto steps, run.Measure(measure));
  if (steps.out_of_memory) {
    return absl::DataLossError(steps.out_of_memory_text);
  }
  side.steps = std::move(steps);
  for (const MeasuredStep& step : side.steps.steps) {
    side.numbers.losses.push_back(step.progress.loss);
    side.numbers.grad_norms.push_back(step.progress.grad_norm);
  }
  ASSIGN_OR_RETURN(auto evaluated, run.Evaluate());
  if (evaluated) {
    side.numbers.metric = evaluated->metric;
    side.numbers.metric_value = evaluated->value;
  }
  ASSIGN_OR_RETURN(auto loaded, run.Load());
  progress.observer().OnStage("loading data alone", 0);
  ASSIGN_OR_RETURN(
      auto loader,
      TimeLoader(*loaded->data.train,
                 loaded->shapes().TrainOptions(side.steps.micro_batch_rows),
                 options.warmup_steps + options.steps, [&] {
                   return progress.observer().stop_request() ==
                          train::StopRequest::kNone;
                 }));
  side.loader = std::move(loader);
  return side;
}

std::optional<double> Utilization(const Measurement& steps) {
  double sum = 0;
  int64_t count = 0;
  for (const MeasuredStep* step : steps.Counted()) {
    if (!step->progress.device_utilization_ratio) continue;
    sum += *step->progress.device_utilization_ratio;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

nlohmann::json ToJson(const DeviceSide& side) {
  const DeviceFigures figures = FiguresOf(side);
  nlohmann::json json = {
      {"device", figures.device},
      {"description", side.steps.device_description},
      {"step_seconds", ToJson(side.steps.Seconds())},
      {"data_wait_ratio", figures.data_wait_ratio},
      {"tokens_per_second", side.steps.TokensPerSecond()},
      {"padding_ratio", side.steps.PaddingShare().value_or(0)},
      {"loader_seconds", ToJson(SpreadOf(side.loader.seconds))},
      {"gradients", side.gradients}};
  if (figures.utilization_ratio) {
    json["utilization_ratio"] = *figures.utilization_ratio;
  }
  if (const auto& peak = side.steps.training.allocated_bytes) {
    json["peak_bytes"] = *peak;
  }
  return json;
}

}  // namespace

DeviceFigures FiguresOf(const DeviceSide& side) {
  DeviceFigures figures;
  figures.device = side.steps.device;
  figures.step_seconds = side.steps.Seconds().median;
  double waits = 0, seconds = 0;
  for (const MeasuredStep* step : side.steps.Counted()) {
    waits += step->progress.data_wait_seconds.value_or(0);
    seconds += step->progress.seconds;
  }
  figures.data_wait_ratio = seconds > 0 ? waits / seconds : 0;
  figures.loader_seconds = SpreadOf(side.loader.seconds).median;
  figures.utilization_ratio = Utilization(side.steps);
  return figures;
}

Found TellDevices(const DeviceSide& baseline, const DeviceSide& measured,
                  int64_t warmup_steps, const runbook::Thresholds& thresholds) {
  DeviceVerdict verdict =
      DecideDevice(FiguresOf(baseline), FiguresOf(measured), thresholds);
  const NumbersVerdict numbers =
      CompareNumbers(baseline.numbers, measured.numbers, thresholds);
  verdict.findings.insert(verdict.findings.end(), numbers.findings.begin(),
                          numbers.findings.end());
  const bool same_batches = baseline.loader.samples == measured.loader.samples;
  Found found;
  found.findings = std::move(verdict.findings);
  if (!same_batches) {
    found.findings.push_back(
        {"compare.batches", runbook::Verdict::kFail,
         "the two devices saw different samples: their times cannot be "
         "compared",
         "compare again while the data files do not change"});
  }
  found.result = {{"device", measured.steps.device},
                  {"baseline", ToJson(baseline)},
                  {"measured", ToJson(measured)},
                  {"speedup_ratio", verdict.speedup},
                  {"compute_speedup_ratio", verdict.compute_speedup},
                  {"decision", same_batches ? NameOf(verdict.decision)
                                            : "DEVICE_DECISION_UNSPECIFIED"},
                  {"reason", std::move(verdict.reason)},
                  {"steps", measured.steps.Counted().size()},
                  {"warmup_steps", warmup_steps},
                  {"same_batches", same_batches},
                  {"dtype", numbers.dtype}};
  for (size_t i = 0; i < numbers.steps.size(); ++i) {
    const StepNumbers& step = numbers.steps[i];
    found.result["losses"].push_back(
        {{"step", i + 1},
         {"baseline_loss", step.baseline_loss},
         {"loss", step.loss},
         {"difference_ratio", step.difference},
         {"baseline_grad_norm", step.baseline_grad_norm},
         {"grad_norm", step.grad_norm}});
  }
  if (numbers.metric_compared) {
    found.result["metric"] = measured.numbers.metric;
    found.result["baseline_metric_value"] = baseline.numbers.metric_value;
    found.result["metric_value"] = measured.numbers.metric_value;
  }
  return found;
}

absl::StatusOr<Found> CompareDevices(const Study& study) {
  ASSIGN_OR_RETURN(auto options,
                   runbook::DeviceComparisonOptionsFromJson(study.options));
  RETURN_IF_ERROR(FindDevices(options));
  StudyProgress progress(study.observer,
                         2 * (options.warmup_steps + options.steps));
  ASSIGN_OR_RETURN(auto baseline,
                   RunOn(options.devices[0], study, options, progress));
  ASSIGN_OR_RETURN(auto measured,
                   RunOn(options.devices[1], study, options, progress));
  return TellDevices(baseline, measured, options.warmup_steps,
                     study.thresholds);
}

}  // namespace mpsd::study
