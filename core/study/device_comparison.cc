// SPDX-License-Identifier: Apache-2.0
#include "core/study/device_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/device/device.h"
#include "core/report/runbook.h"

namespace mpsd::study {
namespace {

using runbook::Finding;
using runbook::Verdict;

// The share of a step's time, waiting or loading, from which the loader rather
// than the batch is the first thing to look at.
constexpr double kMuchOfAStep = 0.1;

std::string Percent(double ratio) {
  return absl::StrFormat("%.1f %%", 100 * ratio);
}

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double PartShorter(double from, double to) {
  return from > 0 ? 1 - to / from : 0;
}

// The standard error of the median of `count` values, if they are normally
// distributed: p10 and p90 are 2.56 standard deviations apart.
double ErrorOfMedian(const Spread& spread, size_t count) {
  if (count == 0) return 0;
  const double deviation = (spread.p90 - spread.p10) / 2.56;
  return 1.25 * deviation / std::sqrt(static_cast<double>(count));
}

double WithoutWait(const DeviceFigures& figures) {
  return figures.step_seconds * (1 - figures.data_wait_ratio);
}

// "19.0 % shorter", "3.0 % longer".
std::string LongerOrShorter(double speedup) {
  return absl::StrCat(Percent(speedup < 0 ? -speedup : speedup),
                      speedup < 0 ? " longer" : " shorter");
}

std::string Shorter(double speedup, const std::string& baseline) {
  return absl::StrCat(LongerOrShorter(speedup), " than on ", baseline);
}

bool DataAreSlow(const DeviceFigures& measured) {
  return measured.data_wait_ratio >= kMuchOfAStep ||
         measured.loader_seconds >= kMuchOfAStep * measured.step_seconds;
}

std::string FixAdvice(const DeviceFigures& measured) {
  if (DataAreSlow(measured)) {
    return "make the batches faster before the model wider: shorter decoding "
           "(smaller images, text instead of pictures of it), data on a local "
           "disk, another sampling strategy; then compare again";
  }
  return "the device is idle although the batches are ready: a step has too "
         "little work. Raise the batch (`mpsctl check batch JOB` finds the "
         "knee), then compare again";
}

Finding SpeedupFinding(const DeviceFigures& baseline,
                       const DeviceFigures& measured,
                       const DeviceVerdict& verdict, double threshold) {
  Finding finding{"compare.speedup", Verdict::kPass,
                  absl::StrFormat("a step on %s takes %.4g s, %s (%.4g s)",
                                  measured.device, measured.step_seconds,
                                  Shorter(verdict.speedup, baseline.device),
                                  baseline.step_seconds)};
  finding.value = verdict.speedup;
  finding.threshold = threshold;
  finding.unit = "ratio";
  if (verdict.decision == DeviceDecision::kUnknown) {
    finding.verdict = Verdict::kUnknown;
    finding.advice = "measure more steps (--steps), with nothing else running";
  } else if (verdict.decision == DeviceDecision::kFixData) {
    finding.verdict = Verdict::kWarn;
    finding.advice = FixAdvice(measured);
  } else if (verdict.decision == DeviceDecision::kStay) {
    finding.verdict = Verdict::kFail;
    finding.advice =
        absl::StrCat("run this job on ", baseline.device, " (\"device\": \"",
                     baseline.device, "\"), or give ", measured.device,
                     " more work a step: `mpsctl check batch JOB`, `mpsctl "
                     "check profile JOB`");
  }
  return finding;
}

Finding UtilizationFinding(const DeviceFigures& measured,
                           const DeviceVerdict& verdict, double threshold) {
  Finding finding{"compare.gpu_utilization", Verdict::kUnknown,
                  absl::StrCat(measured.device,
                               " does not report its utilisation: the waits "
                               "for batches are used instead")};
  finding.threshold = threshold;
  finding.unit = "ratio";
  if (!measured.utilization_ratio) return finding;
  finding.value = measured.utilization_ratio;
  finding.found =
      absl::StrCat(measured.device, " is busy for ",
                   Percent(*measured.utilization_ratio), " of the time");
  finding.verdict = verdict.decision == DeviceDecision::kFixData
                        ? Verdict::kWarn
                        : Verdict::kPass;
  return finding;
}

Finding DataFinding(const DeviceFigures& measured,
                    const DeviceVerdict& verdict) {
  return Judge(
      {.name = "compare.data",
       .found = absl::StrFormat(
           "a step waits for its batches for %s of its time; the loader alone "
           "makes them in %.4g s; without the waits a step is %s",
           Percent(measured.data_wait_ratio), measured.loader_seconds,
           LongerOrShorter(verdict.compute_speedup)),
       .value = measured.data_wait_ratio,
       .unit = "ratio"},
      verdict.decision != DeviceDecision::kGo && DataAreSlow(measured),
      Verdict::kWarn, "");
}

std::string ReasonFor(const DeviceFigures& baseline,
                      const DeviceFigures& measured,
                      const DeviceVerdict& verdict) {
  const std::string shorter =
      absl::StrCat("a step is ", Shorter(verdict.speedup, baseline.device));
  switch (verdict.decision) {
    case DeviceDecision::kUnknown:
      return absl::StrCat(shorter, ", give or take ",
                          Percent(2 * verdict.speedup_error),
                          ": too few steps, or too uneven ones");
    case DeviceDecision::kGo:
      return shorter;
    case DeviceDecision::kFixData:
      if (measured.utilization_ratio) {
        return absl::StrCat(
            shorter, " while ", measured.device, " is busy for ",
            Percent(*measured.utilization_ratio), " of the time");
      }
      return absl::StrCat(shorter, "; without the waits for batches it is ",
                          Percent(verdict.compute_speedup), " shorter");
    case DeviceDecision::kStay:
      break;
  }
  // Both devices may wait for their batches most of the time.
  return DataAreSlow(measured)
             ? absl::StrCat(shorter, "; without the waits for batches it is ",
                            Shorter(verdict.compute_speedup, baseline.device))
             : absl::StrCat(shorter, ", and the data are not the bottleneck");
}

// A finding that fails above its tolerance.
Finding Compared(const std::string& what, const std::string& dtype,
                 double difference, std::string found,
                 const runbook::Thresholds& thresholds) {
  const double tolerance =
      thresholds.Get(absl::StrCat("compare.", what, "_", dtype));
  return Judge(
      {.name = absl::StrCat("compare.", what),
       .found = std::move(found),
       .value = difference,
       .threshold = tolerance,
       .unit = "ratio"},
      difference > tolerance, Verdict::kFail,
      "the two devices do not compute the same: `mpsd-worker --selftest` says "
      "whether a device's kernels differ, and `mpsctl doctor` which versions "
      "run. Runs that must match have to use a single platform");
}

Finding Unknown(const std::string& what, const std::string& why) {
  return {absl::StrCat("compare.", what), Verdict::kUnknown, why};
}

}  // namespace

const char* NameOf(DeviceDecision decision) {
  switch (decision) {
    case DeviceDecision::kUnknown:
      return "DEVICE_DECISION_UNSPECIFIED";
    case DeviceDecision::kGo:
      return "DEVICE_DECISION_GO";
    case DeviceDecision::kFixData:
      return "DEVICE_DECISION_FIX_DATA";
    case DeviceDecision::kStay:
      break;
  }
  return "DEVICE_DECISION_STAY_ON_CPU";
}

DeviceVerdict DecideDevice(const DeviceFigures& baseline,
                           const DeviceFigures& measured,
                           const runbook::Thresholds& thresholds) {
  const double least_speedup = thresholds.Get("compare.speedup");
  const double least_use = thresholds.Get("compare.gpu_utilization");
  DeviceVerdict verdict;
  verdict.speedup = PartShorter(baseline.step_seconds, measured.step_seconds);
  verdict.compute_speedup =
      PartShorter(WithoutWait(baseline), WithoutWait(measured));
  const bool data_at_fault = measured.utilization_ratio
                                 ? *measured.utilization_ratio < least_use
                                 : verdict.compute_speedup >= least_speedup;
  verdict.speedup_error =
      (1 - verdict.speedup) *
      std::hypot(Share(baseline.step_error, baseline.step_seconds),
                 Share(measured.step_error, measured.step_seconds));
  if (std::abs(verdict.speedup - least_speedup) < 2 * verdict.speedup_error) {
    verdict.decision = DeviceDecision::kUnknown;
  } else if (verdict.speedup >= least_speedup) {
    verdict.decision = DeviceDecision::kGo;
  } else {
    verdict.decision =
        data_at_fault ? DeviceDecision::kFixData : DeviceDecision::kStay;
  }
  verdict.reason = ReasonFor(baseline, measured, verdict);
  verdict.findings = {
      SpeedupFinding(baseline, measured, verdict, least_speedup),
      UtilizationFinding(measured, verdict, least_use),
      DataFinding(measured, verdict)};
  return verdict;
}

double RelativeDifference(double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) return 1;
  const double larger = std::max(std::abs(a), std::abs(b));
  return larger == 0 ? 0 : std::abs(a - b) / larger;
}

NumbersVerdict CompareNumbers(const DeviceNumbers& baseline,
                              const DeviceNumbers& measured,
                              const runbook::Thresholds& thresholds) {
  NumbersVerdict verdict;
  const std::string& dtype = verdict.dtype =
      baseline.dtype == "bf16" ? baseline.dtype : measured.dtype;
  const size_t steps = std::min(baseline.losses.size(), measured.losses.size());
  for (size_t i = 0; i < steps; ++i) {
    const double own = baseline.losses[i], other = measured.losses[i];
    verdict.steps.push_back({own, other, RelativeDifference(own, other),
                             baseline.grad_norms[i], measured.grad_norms[i]});
  }
  if (steps == 0) {
    verdict.findings = {Unknown("loss", "the devices have no step in common")};
    return verdict;
  }
  const auto worst = std::max_element(
      verdict.steps.begin(), verdict.steps.end(),
      [](const auto& a, const auto& b) { return a.difference < b.difference; });
  verdict.findings.push_back(Compared(
      "loss", dtype, worst->difference,
      absl::StrFormat("losses of %d steps differ by %.3g at most, relative to "
                      "the larger: %.6g and %.6g at step %d",
                      steps, worst->difference, worst->baseline_loss,
                      worst->loss, 1 + (worst - verdict.steps.begin())),
      thresholds));
  const StepNumbers& first = verdict.steps.front();
  const double norms =
      RelativeDifference(first.baseline_grad_norm, first.grad_norm);
  verdict.findings.push_back(Compared(
      "gradient", dtype, norms,
      absl::StrFormat("the norm of the first gradient is %.6g and "
                      "%.6g, a relative difference of %.3g",
                      first.baseline_grad_norm, first.grad_norm, norms),
      thresholds));
  if (baseline.metric.empty() || baseline.metric != measured.metric) {
    verdict.findings.push_back(
        Unknown("metric", "the job has no evaluation data (dataset.eval)"));
  } else if (baseline.losses.size() != measured.losses.size()) {
    verdict.findings.push_back(
        Unknown("metric", "a pause gave one device further steps"));
  } else {
    verdict.metric_compared = true;
    const double metrics =
        RelativeDifference(baseline.metric_value, measured.metric_value);
    verdict.findings.push_back(Compared(
        "metric", dtype, metrics,
        absl::StrFormat("the validation metric %s is %.6g and %.6g, a relative "
                        "difference of %.3g",
                        measured.metric, baseline.metric_value,
                        measured.metric_value, metrics),
        thresholds));
  }
  return verdict;
}

absl::StatusOr<std::vector<double>> TimeLoader(
    const data::Source& source, const data::LoaderOptions& options,
    int64_t steps, const std::function<bool()>& go_on) {
  data::Loader loader(source, options);
  const int64_t per_epoch = loader.steps_per_epoch();
  loader.Seek({steps / per_epoch, steps % per_epoch});
  std::vector<double> seconds;
  for (int64_t i = 0; i < steps; ++i) {
    if (!go_on()) return absl::CancelledError("stopped");
    const absl::Duration start = base::Clock::Real().Monotonic();
    RETURN_IF_ERROR(loader.NextStep().status());
    seconds.push_back(
        absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start));
    base::CountWork();
  }
  return seconds;
}

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
  side.loader_seconds = std::move(loader);
  side.data = loaded->data.train->TokenDigest();
  if (side.data.empty()) side.data = loaded->data.train->hash();
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
      {"loader_seconds", ToJson(SpreadOf(side.loader_seconds))},
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
  const Spread seconds_of_step = side.steps.Seconds();
  figures.step_seconds = seconds_of_step.median;
  figures.step_error =
      ErrorOfMedian(seconds_of_step, side.steps.Counted().size());
  double waits = 0, seconds = 0;
  for (const MeasuredStep* step : side.steps.Counted()) {
    waits += step->progress.data_wait_seconds.value_or(0);
    seconds += step->progress.seconds;
  }
  figures.data_wait_ratio = seconds > 0 ? waits / seconds : 0;
  figures.loader_seconds = SpreadOf(side.loader_seconds).median;
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
  const bool same_batches = baseline.data == measured.data;
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
