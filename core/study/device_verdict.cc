// SPDX-License-Identifier: Apache-2.0
#include "core/study/device_verdict.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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

double PartShorter(double from, double to) {
  return from > 0 ? 1 - to / from : 0;
}

double WithoutWait(const DeviceFigures& figures) {
  return figures.step_seconds * (1 - figures.data_wait_ratio);
}

// "19.0 % shorter than the CPU's", "3.0 % longer …".
std::string Shorter(double speedup, const std::string& baseline) {
  return absl::StrCat(Percent(speedup < 0 ? -speedup : speedup),
                      speedup < 0 ? " longer" : " shorter", " than on ",
                      baseline);
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
         "little work. Raise the batch (`mpsctl sweep JOB --batch` finds the "
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
  if (verdict.decision == DeviceDecision::kFixData) {
    finding.verdict = Verdict::kWarn;
    finding.advice = FixAdvice(measured);
  } else if (verdict.decision == DeviceDecision::kStay) {
    finding.verdict = Verdict::kFail;
    finding.advice = absl::StrCat(
        "run this job on ", baseline.device, " (\"device\": \"",
        baseline.device, "\"), or give ", measured.device,
        " more work a step: `mpsctl sweep JOB --batch`, `mpsctl profile JOB`");
  }
  return finding;
}

Finding UtilizationFinding(const DeviceFigures& measured,
                           const DeviceVerdict& verdict, double threshold) {
  Finding finding{"compare.gpu_utilization", Verdict::kNotTold,
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
  Finding finding{
      "compare.data", Verdict::kPass,
      absl::StrFormat(
          "a step waits for its batches for %s of its time; the loader alone "
          "makes them in %.4g s; without the waits a step is %s",
          Percent(measured.data_wait_ratio), measured.loader_seconds,
          absl::StrCat(
              Percent(verdict.compute_speedup < 0 ? -verdict.compute_speedup
                                                  : verdict.compute_speedup),
              verdict.compute_speedup < 0 ? " longer" : " shorter"))};
  finding.value = measured.data_wait_ratio;
  finding.unit = "ratio";
  if (verdict.decision != DeviceDecision::kGo && DataAreSlow(measured)) {
    finding.verdict = Verdict::kWarn;
  }
  return finding;
}

std::string ReasonFor(const DeviceFigures& baseline,
                      const DeviceFigures& measured,
                      const DeviceVerdict& verdict) {
  const std::string shorter =
      absl::StrCat("a step is ", Shorter(verdict.speedup, baseline.device));
  switch (verdict.decision) {
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
  Finding finding{absl::StrCat("compare.", what), Verdict::kPass,
                  std::move(found)};
  finding.value = difference;
  finding.threshold =
      thresholds.Get(absl::StrCat("compare.", what, "_", dtype));
  finding.unit = "ratio";
  if (difference <= *finding.threshold) return finding;
  finding.verdict = Verdict::kFail;
  finding.advice =
      "the two devices do not compute the same: `mpsd-worker --selftest` says "
      "whether a device's kernels differ, and `mpsctl doctor` which versions "
      "run. Runs that must match have to use a single platform";
  return finding;
}

Finding NotTold(const std::string& what, const std::string& why) {
  return {absl::StrCat("compare.", what), Verdict::kNotTold, why};
}

}  // namespace

const char* NameOf(DeviceDecision decision) {
  switch (decision) {
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
  if (verdict.speedup >= least_speedup) {
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
    verdict.findings = {NotTold("loss", "the devices have no step in common")};
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
        NotTold("metric", "the job has no evaluation data (dataset.eval)"));
  } else if (baseline.losses.size() != measured.losses.size()) {
    verdict.findings.push_back(
        NotTold("metric", "a pause gave one device further steps"));
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

}  // namespace mpsd::study
